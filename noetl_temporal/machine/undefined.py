"""Conditions that did not match because they used an undefined name: a typo, most often (semantics.md 15).

Such a condition counts as false, so a run may end well and have done nothing; the log gets a warning for it. None is
written where names are missing on purpose: after a failure or a skip, for the names of ``OF_SOME_OUTCOMES``, and in
profiles that tolerate them where another condition of the same place matched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl_compiler import templates
from noetl_compiler.graph import NamesProfile
from noetl_compiler.language.names import OF_SOME_OUTCOMES
from noetl_temporal.machine.mistake import Mistake

__all__ = ["Mistake", "is_reported", "left_out", "undefined_name", "unmatched"]


def undefined_name(verdict: templates.Verdict) -> str | None:
    """The undefined name that the condition used by mistake."""
    if not verdict.is_mistake or verdict.indeterminate[0].partition(".")[0] in OF_SOME_OUTCOMES:
        return None
    return verdict.indeterminate[0]


def unmatched(source: str, scope: Mapping[str, Any], verdict: templates.Verdict) -> str | None:
    """The warning about a route's, a rule's or an admission's condition; None where there is nothing to say."""
    name = undefined_name(verdict)
    if name is None:
        return None
    return f'"{name}" is undefined, so this condition did not match{_hint(source, scope, name)}'


def left_out(source: str, scope: Mapping[str, Any], name: str, count: int, total: int) -> str:
    """The warning about a loop's ``where``, in which ``name`` was undefined for so many items."""
    told = f'"{name}" is undefined for {count:,} of {total:,} items, so they were left out'
    return told + _hint(source, scope, name)


def is_reported(names: NamesProfile, others: Iterable[bool]) -> bool:
    """``others`` tells of each condition of the same place whether it matched."""
    return not (names.tolerates_undefined and any(others))


def _hint(source: str, scope: Mapping[str, Any], name: str) -> str:
    hint = templates.hint_for(source, scope, name)
    return f": {hint}" if hint else ""
