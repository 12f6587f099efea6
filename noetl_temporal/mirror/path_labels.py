"""The label ``path`` of metrics: Prometheus stores a series for each of its values for weeks, so they are limited."""

from __future__ import annotations

__all__ = ["MAX_PATHS", "OTHER_PATHS", "PathLabels"]

MAX_PATHS = 200

OTHER_PATHS = "(other)"
"""The label of all paths over the limit."""


class PathLabels:
    """Labels the first ``limit`` paths with themselves, and all others with OTHER_PATHS."""

    def __init__(self, limit: int = MAX_PATHS) -> None:
        self._limit = limit
        self._paths: set[str] = set()

    def label(self, path: str) -> str:
        """Return the label of a path, the same in every call."""
        if path in self._paths or len(self._paths) < self._limit:
            self._paths.add(path)
            return path
        return OTHER_PATHS
