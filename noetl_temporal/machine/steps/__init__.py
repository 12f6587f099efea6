"""Runs of steps: how they begin, what ends them, and which arcs lead on."""
