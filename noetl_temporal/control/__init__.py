"""Requests to runs: signals, decisions, pauses, cancels."""
