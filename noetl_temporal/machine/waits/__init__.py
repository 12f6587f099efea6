"""Waits of a run for a time, a signal or a person, and what ends them (semantics.md 44)."""
