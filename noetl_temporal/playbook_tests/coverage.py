"""Finds the steps, routes and rules of a playbook that its tests reach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from noetl_compiler.graph import Arc, Graph, Json, Span, Step
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.playbook_tests.host import TrialCall, TrialRun

__all__ = ["Part", "ReachedParts", "parts_of", "reached_parts"]


class Part(NamedTuple):
    """A part of a playbook that a test can reach. ``kind`` is step, route or rule, ``text`` is its description."""

    kind: str
    text: str
    span: Span


ReachedParts = frozenset[Part]


def parts_of(graph: Graph) -> list[Part]:
    """Return everything that tests can reach, in the order of the playbook, without steps that the compiler added."""
    steps = [step for step in graph.steps.values() if not step.injected]
    parts = [
        part
        for step in steps
        for part in (_step_part(step), *_route_parts(step), *_admission_parts(step), *_rule_parts(step))
    ]
    return sorted(dict.fromkeys(parts), key=lambda part: part.span)


def reached_parts(graph: Graph, runs: Iterable[TrialRun]) -> ReachedParts:
    """Return the parts that these runs reached."""
    return frozenset(part for run in runs for part in _parts_of_run(graph, run))


def _step_part(step: Step) -> Part:
    return Part("step", step.name, step.span)


def _route_part(step: Step, arc: Arc) -> Part:
    when = f" when {arc.when.source}" if arc.when else ""
    return Part("route", f"{step.name} -> {arc.target}{when}", arc.span)


def _route_parts(step: Step) -> Iterator[Part]:
    """Yield the written routes. An implied route has the span of its step."""
    return (_route_part(step, arc) for arc in _arcs(step) if arc.span != step.span)


def _arcs(step: Step) -> tuple[Arc, ...]:
    """Return the arcs into the iterations of its loop or from its items, then its own."""
    entry_route = step.loop.entry_route if step.loop is not None else None
    return (*(entry_route.arcs if entry_route is not None else ()), *step.route.arcs)


def _admission_parts(step: Step) -> Iterator[Part]:
    for rule in step.admit:
        yield Part("rule", f"admission of {step.name}: {'allow' if rule.allow else 'deny'}", rule.span)


def _rule_parts(step: Step) -> Iterator[Part]:
    for task in step.tasks:
        for rule in task.policy.rules if task.policy else ():
            yield Part("rule", f"{task.label} of {step.name}: {rule.do}", rule.span)


# ---- in a run --------------------------------------------------------------------------------------------------------


def _parts_of_run(graph: Graph, run: TrialRun) -> Iterator[Part]:
    for event in run.events:
        step = graph.steps.get(event.node)
        if step is not None and not step.injected:
            yield from _parts_of_event(event, step)
    for call in run.calls:
        yield from _rules_of_call(graph, call)


def _parts_of_event(event: DomainEvent, step: Step) -> Iterator[Part]:
    if event.type == "step.started":
        yield _step_part(step)
    elif event.type == "policy.admit.evaluated" and isinstance(rule := event.meta.get("rule"), int):
        yield list(_admission_parts(step))[rule]
    elif event.type == "next.evaluated":
        matching_arcs = [_arc_key_in_event(arc) for arc in event.meta.get("arcs") or () if arc["matched"]]
        yield from (_route_part(step, arc) for arc in _arcs(step) if _arc_key(arc) in matching_arcs)


def _arc_key_in_event(arc_record: dict[str, Json]) -> tuple[Json, ...]:
    return arc_record["to"], arc_record.get("when")


def _arc_key(arc: Arc) -> tuple[Json, ...]:
    return arc.target, arc.when.source if arc.when else None


def _rules_of_call(graph: Graph, call: TrialCall) -> Iterator[Part]:
    """Yield the rules that decided on the attempts of a call."""
    step = graph.steps[call.call.step]
    policy = next((task.policy for task in step.tasks if task.label == call.call.task), None)
    if call.report is None or policy is None:
        return
    for index in {call.report.rule, *(rule.rule for rule in call.report.attempts)} - {None}:
        if index is not None and index < len(policy.rules):
            rule = policy.rules[index]
            yield Part("rule", f"{call.call.task} of {step.name}: {rule.do}", rule.span)
