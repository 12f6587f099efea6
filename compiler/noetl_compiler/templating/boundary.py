"""After which outcomes a route can be followed that does not say it."""

from __future__ import annotations

from noetl_compiler.graph import Template
from noetl_compiler.language.names import STATUS
from noetl_compiler.language.words import OnStatus
from noetl_compiler.templating.check import examine

__all__ = ["boundary"]


def boundary(when: Template | None) -> OnStatus:
    """An arc can follow a failure only if it asks about the outcome (dev/decisions/0007)."""
    if when is None:
        return "ok"
    names = {path.partition(".")[0] for path in examine(when.source).reads}
    return "any" if names & STATUS else "ok"
