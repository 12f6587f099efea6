"""Loops over steps: the machines of their iterations, inside the machine of the loop (dev/decisions/0054)."""
