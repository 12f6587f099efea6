"""The tool http."""
