"""The activity that runs a tool: attempts, sinks, logs and outcomes of a call."""
