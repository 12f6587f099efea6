"""The run of a loop: its items, iterations and results."""
