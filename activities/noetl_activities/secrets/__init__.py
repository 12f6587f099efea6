"""Secrets of keychains: resolves references to them and fetches their values (dev/decisions/0048)."""
