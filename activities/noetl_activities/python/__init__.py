"""The tool python, and the process in which its code runs."""
