"""Loops over steps: the machines of their iterations, inside of the loop's machine (dev/decisions/0054)."""
