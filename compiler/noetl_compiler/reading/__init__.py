"""Internals of the reader: YAML events to nodes, scalars to values, each with its position in the text."""
