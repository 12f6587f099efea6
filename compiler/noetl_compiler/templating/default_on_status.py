"""The outcomes after which a route can be followed if it declares none (``on_status``)."""

from __future__ import annotations

from noetl_compiler.graph import Template
from noetl_compiler.language.names import STATUS_NAMES
from noetl_compiler.language.words import OnStatus
from noetl_compiler.templating.analysis import analyse_template

__all__ = ["default_on_status"]


def default_on_status(when: Template | None) -> OnStatus:
    """Return ``any`` if the condition of the route reads the outcome, otherwise ``ok``: a route can be followed after a
    failure only if its condition reads the outcome (dev/decisions/0007).
    """
    if when is None:
        return "ok"
    names = analyse_template(when.source).root_names
    return "any" if names & STATUS_NAMES else "ok"
