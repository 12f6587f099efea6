"""The tasks of a step, or of one iteration of its loop: a pipeline of calls."""
