"""Inside of the reader: YAML events to nodes, scalars to values, and where in the text each stands."""
