"""Internals of reader.py: YAML events to nodes, and scalars to values, with their positions in the text."""
