"""Secrets of keychains: where references to them lead, and how their values are fetched (dev/decisions/0048)."""
