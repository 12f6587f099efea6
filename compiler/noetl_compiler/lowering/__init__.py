"""Inside of lower.py: tasks, routes, sinks and regions of the syntax tree as those of the graph."""
