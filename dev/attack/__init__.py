"""Generated attacks on what guards against hostile playbooks, files and answers: ``python -m dev.attack``."""
