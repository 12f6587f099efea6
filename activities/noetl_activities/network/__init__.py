"""Connections that are guarded against requests to private addresses."""
