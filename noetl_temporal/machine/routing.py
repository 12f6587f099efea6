"""Which ways lead on from a step: a pure function of route, boundary and the names in scope (semantics.md 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from noetl_compiler import templates
from noetl_compiler.graph import AdmitRule, Arc, Json, Route

__all__ = ["Admission", "Boundary", "Selection", "admit", "select"]

Boundary = Literal["ok", "error"]


class Selection(msgspec.Struct, frozen=True):
    """The arcs taken, and what was evaluated on the way: [{to, when, matched, indeterminate}]."""

    arcs: tuple[Arc, ...]
    evaluated: tuple[dict[str, Json], ...]


def select(route: Route, boundary: Boundary, scope: Mapping[str, Any]) -> Selection:
    """``exclusive`` stops at the first match in YAML order; an arc for another boundary is not evaluated."""
    taken: list[Arc] = []
    evaluated: list[dict[str, Json]] = []
    for arc in route.arcs:
        if arc.on not in ("any", boundary):
            continue
        verdict = templates.predicate(arc.when.source, scope, arc.when.span) if arc.when else templates.Verdict(True)
        evaluated.append(_account(arc, verdict))
        if verdict.matched:
            taken.append(arc)
            if route.mode == "exclusive":
                break
    return Selection(tuple(taken), tuple(evaluated))


def _account(arc: Arc, verdict: templates.Verdict) -> dict[str, Json]:
    account: dict[str, Json] = {"to": arc.to, "matched": verdict.matched}
    if arc.when:
        account["when"] = arc.when.source
    if verdict.indeterminate:
        account["indeterminate"] = list(verdict.indeterminate)
    return account


class Admission(msgspec.Struct, frozen=True):
    """Whether a step may run, and the index of the rule that said so."""

    allowed: bool
    rule: int | None = None
    indeterminate: tuple[str, ...] = ()


def admit(rules: tuple[AdmitRule, ...], scope: Mapping[str, Any]) -> Admission:
    """First match wins, default allow (semantics.md 10)."""
    unknown: list[str] = []
    for index, rule in enumerate(rules):
        verdict = templates.predicate(rule.when.source, scope, rule.when.span) if rule.when else templates.Verdict(True)
        unknown.extend(verdict.indeterminate)
        if verdict.matched:
            return Admission(rule.allow, index, tuple(unknown))
    return Admission(True, None, tuple(unknown))
