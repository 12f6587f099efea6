"""The label ``path`` of metrics: Prometheus keeps a series for each value for weeks, so there is a limit to them."""

from __future__ import annotations

__all__ = ["MAX_PATHS", "OTHER_PATHS", "PathLabels"]

MAX_PATHS = 200

OTHER_PATHS = "(other)"
"""The label of all further paths."""


class PathLabels:
    """Gives each of the first ``limit`` paths a label of its own, and all others the same label."""

    def __init__(self, limit: int = MAX_PATHS) -> None:
        self._limit = limit
        self._paths: set[str] = set()

    def label(self, path: str) -> str:
        """Return the label of a path, the same in every call."""
        if path in self._paths or len(self._paths) < self._limit:
            self._paths.add(path)
            return path
        return OTHER_PATHS
