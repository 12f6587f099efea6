"""The tool quantum, and the process in which its circuits run."""
