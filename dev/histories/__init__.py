"""Histories of every feature and every stop, recorded on a real Temporal for tests/replay."""
