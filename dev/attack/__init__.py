"""Generated attacks on the guards against hostile playbooks, files and responses: ``python -m dev.attack``."""
