"""Internals of lower.py: convert tasks, routes, sinks and regions of the syntax tree to those of the graph."""
