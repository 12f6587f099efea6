"""Kill parts of the embedded stack while a loop of HTTP calls with a sink runs, and check the result."""
