"""Runs of steps: how they begin and end, and which arcs are followed."""
