"""Conditions that did not match because they used an undefined name, usually a typo (semantics.md 15).

Such a condition is false, so a run may succeed without doing anything; the log gets a warning. There is no warning if
names are undefined on purpose: after a failure or a skip, for the names in ``OPTIONAL_OUTCOME_NAMES``, and, in profiles
that tolerate undefined names, if another condition of the same route or rules matched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl_compiler import templates
from noetl_compiler.graph import NamesProfile
from noetl_compiler.language.names import OPTIONAL_OUTCOME_NAMES

__all__ = ["is_reported", "left_out_warning", "undefined_name", "unmatched_warning"]


def undefined_name(verdict: templates.PredicateResult) -> str | None:
    """Return the undefined name that the condition used; None if it used none, or one of OPTIONAL_OUTCOME_NAMES."""
    if not verdict.is_mistake or verdict.indeterminate[0].partition(".")[0] in OPTIONAL_OUTCOME_NAMES:
        return None
    return verdict.indeterminate[0]


def unmatched_warning(source: str, scope: Mapping[str, Any], verdict: templates.PredicateResult) -> str | None:
    """Return the warning about the condition of a route, rule or admission; None if there is none."""
    name = undefined_name(verdict)
    if name is None:
        return None
    return f'"{name}" is undefined, so this condition did not match{_hint(source, scope, name)}'


def left_out_warning(source: str, scope: Mapping[str, Any], name: str, count: int, total: int) -> str:
    """Return the warning about the ``where`` of a loop, in which ``name`` was undefined for ``count`` items."""
    message = f'"{name}" is undefined for {count:,} of {total:,} items, so they were left out'
    return message + _hint(source, scope, name)


def is_reported(names: NamesProfile, others: Iterable[bool]) -> bool:
    """Whether to warn. ``others`` are whether the other conditions of the same route or rules matched."""
    return not (names.tolerates_undefined and any(others))


def _hint(source: str, scope: Mapping[str, Any], name: str) -> str:
    hint = templates.undefined_name_hint(source, scope, name)
    return f": {hint}" if hint else ""
