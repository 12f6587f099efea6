"""The tool shell, and the process in which its commands run."""
