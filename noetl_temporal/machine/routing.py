"""Selects the arcs to follow from a step: a pure function of route, outcome and scope (semantics.md 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from noetl_compiler import templates
from noetl_compiler.graph import AdmitRule, Arc, Json, Route, Template
from noetl_temporal.machine.condition_warning import ConditionWarning
from noetl_temporal.machine.undefined import unmatched_warning

__all__ = ["Admission", "Boundary", "Selection", "admit", "fixed_selection", "select"]

Boundary = Literal["ok", "error"]

_NO_CONDITION = templates.PredicateResult(True)
"""The result of an arc or rule without a condition."""


class Selection(msgspec.Struct, frozen=True):
    """The selected arcs, and a report of those evaluated: [{to, when, matched, indeterminate}].

    ``warnings`` are about conditions that used an undefined name; ``targets`` are the steps that the selected
    arcs lead to.
    """

    arcs: tuple[Arc, ...]
    evaluated: tuple[dict[str, Json], ...]
    warnings: tuple[ConditionWarning, ...] = ()
    targets: tuple[str, ...] = ()


def fixed_selection(route: Route, boundary: Boundary) -> Selection | None:
    """Return the selection if it is the same for all runs of the step: no arc has a condition or sets anything. Else
    None.
    """
    arcs = [arc for arc in route.arcs if arc.on_status == "any" or arc.on_status == boundary]
    for arc in arcs:
        if arc.when is not None or arc.set:
            return None
    if route.mode == "exclusive":
        del arcs[1:]
    targets = tuple([arc.target for arc in arcs])
    return Selection(tuple(arcs), tuple([{"to": target, "matched": True} for target in targets]), (), targets)


def select(route: Route, boundary: Boundary, scope: Mapping[str, Any]) -> Selection:
    """Return the arcs of a route that match. ``exclusive`` stops at the first match in the order of the YAML; arcs for
    another outcome are not evaluated.
    """
    arcs: list[Arc] = []
    decisions: list[dict[str, Json]] = []
    warnings: list[ConditionWarning] = []
    for arc in route.arcs:
        if arc.on_status not in ("any", boundary):
            continue
        result = _evaluate(arc.when, scope, warnings)
        decisions.append(_decision_record(arc, result))
        if result.matched:
            arcs.append(arc)
            if route.mode == "exclusive":
                break
    targets = tuple(arc.target for arc in arcs)
    return Selection(tuple(arcs), tuple(decisions), tuple(warnings), targets)


def _evaluate(
    when: Template | None, scope: Mapping[str, Any], warnings: list[ConditionWarning]
) -> templates.PredicateResult:
    if when is None:
        return _NO_CONDITION
    result = templates.predicate(when.source, scope, when.span)
    message = unmatched_warning(when.source, scope, result)
    if message is not None:
        warnings.append(ConditionWarning(message, when.span))
    return result


def _decision_record(arc: Arc, result: templates.PredicateResult) -> dict[str, Json]:
    record: dict[str, Json] = {"to": arc.target, "matched": result.matched}
    if arc.when:
        record["when"] = arc.when.source
    if result.indeterminate:
        record["indeterminate"] = list(result.indeterminate)
    return record


class Admission(msgspec.Struct, frozen=True):
    """Whether a step may run, and the index of the rule that decided it."""

    allowed: bool
    rule: int | None = None
    indeterminate: tuple[str, ...] = ()
    warnings: tuple[ConditionWarning, ...] = ()


def admit(rules: tuple[AdmitRule, ...], scope: Mapping[str, Any]) -> Admission:
    """Apply the first matching rule; by default the step may run (semantics.md 10)."""
    unknown: list[str] = []
    warnings: list[ConditionWarning] = []
    for index, rule in enumerate(rules):
        result = _evaluate(rule.when, scope, warnings)
        unknown.extend(result.indeterminate)
        if result.matched:
            return Admission(rule.allow, index, tuple(unknown), tuple(warnings))
    return Admission(True, None, tuple(unknown), tuple(warnings))
