"""Internals of playbook_set.py: what a playbook requires and calls, and cycles of calls."""
