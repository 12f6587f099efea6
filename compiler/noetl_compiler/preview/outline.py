"""A step as nested lines of text, shared by the tree, the diagrams and the HTML page."""

from __future__ import annotations

import msgspec

from noetl_compiler.conditions import Condition, Moment, arc_condition, read_condition
from noetl_compiler.credential_names import credential_names
from noetl_compiler.graph import Arc, Assign, EnterRule, Graph, KeychainEntry, Loop, Policy, Sink, Step, Task
from noetl_compiler.guarantees import call_guarantee, rows_guarantee
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.language.tools import KINDS, WAIT_KINDS
from noetl_compiler.preview.calls import summarise_call
from noetl_compiler.preview.order import can_fall_to_final
from noetl_compiler.preview.phrases import (
    assign_in_words,
    circuit_in_words,
    condition_in_words,
    duration_in_words,
    guard_in_words,
    loop_in_words,
    rule_in_words,
    sets_in_words,
    sink_in_words,
    timeout_in_words,
    value_text,
    when_in_words,
)
from noetl_compiler.value_merge import mapping_of

__all__ = ["Line", "content", "heading", "matches_every_error", "routes"]

_FAILURES = {
    "fail_fast": "its failure stops the other branches",
    "best_effort": "its failure does not stop the other branches",
}
_OUTCOMES = {"ok": "", "error": "on failure", "any": "on success or failure"}


class Line(msgspec.Struct):
    """A line and its nested lines."""

    text: str
    children: list[Line] = msgspec.field(default_factory=list["Line"])


def heading(graph: Graph) -> list[str]:
    """Return the name, the entry and final step, and the task queues, credentials and keychain entries of a graph."""
    source = graph.source
    queues = sorted(
        {task.queue for step in graph.steps.values() for task in step.all_tasks if task.kind not in WAIT_KINDS}
    )
    count = f"{len(graph.steps)} step{'s' * (len(graph.steps) != 1)}"
    name = source.name if source.path in ("", source.name) else f"{source.name} ({source.path})"
    stops = "; the first failure stops the other branches" if graph.branch_failure == "fail_fast" else ""
    credentials = ", ".join(map(str, credential_names(graph)))
    keychain = ", ".join(f"{entry.name} ({_provider(entry)})" for entry in graph.keychain)
    return [
        f"{name}: {count}, dialect {source.dialect}",
        f"starts at {graph.entry}, ends at {graph.final}; an unhandled failure goes to {graph.final}{stops}",
        f"task queues: {', '.join(queues) or 'none'}",
        *([f"credentials: {credentials}"] if credentials else []),
        *([f"keychain: {keychain}"] if keychain else []),
    ]


def _provider(entry: KeychainEntry) -> str:
    """Return the provider of a keychain entry (``gcp``), or else its kind."""
    provider = mapping_of(entry.config).get("provider")
    return provider if isinstance(provider, str) and provider else entry.kind


def content(step: Step, tools: Tools = KINDS) -> list[Line]:
    """Return what a step does: admission, loop, join, tasks with their rules and sinks, assignments."""
    lines = [Line(f"{'admit' if rule.allow else 'skip'} {when_in_words(rule.when)}".rstrip()) for rule in step.admit]
    lines += [line for rule in step.enter for line in _entering(rule)]
    if step.loop:
        lines.append(Line(loop_in_words(step.loop), _iteration(step.loop)))
    if step.join != "wave":
        lines.append(Line("runs for each arrival" if step.join == "each" else "runs at the first arrival"))
    if step.timeout and step.timeout.total:
        lines.append(Line(f"at most {duration_in_words(step.timeout.total)}"))
    if step.branch_failure:
        lines.append(Line(_FAILURES[step.branch_failure]))
    if step.hold:
        lines.append(Line(f"after a failure it waits for a person, at most {duration_in_words(step.hold.seconds)}"))
    status = [Line(f"the run ends as {value_text(step.status.value)}")] if step.status else []
    return [*lines, *(_task(task, tools) for task in step.tasks), *_sets(step.set), *status]


def _entering(rule: EnterRule) -> list[Line]:
    guard_text = guard_in_words(rule.guard, "enter") if rule.guard else ""
    sets = _sets(rule.set)
    return [Line(f"on entering{guard_text and f', {guard_text}'}", sets)] if sets else []


def _iteration(loop: Loop) -> list[Line]:
    """Return how each iteration of a loop over steps starts and ends, or the routes of each item."""
    if loop.entry_route is None:
        return []
    if not loop.end:
        return [Line(f"each item: {_route(arc)}") for arc in loop.entry_route.arcs]
    return [
        *(Line(f"each iteration: {_route(arc)}") for arc in loop.entry_route.arcs),
        Line(f"each iteration ends at {loop.end}"),
    ]


def _task(task: Task, tools: Tools) -> Line:
    queue = "" if task.queue == task.kind else f" on queue {task.queue}"
    guard_text = f", afterwards {guard_in_words(task.guard)}".rstrip() if task.guard else ""
    guarantee = call_guarantee(task, tools)
    kind = f"{task.kind}, {guarantee.how_often}" if guarantee else task.kind
    line = Line(f"{task.label} [{kind}]{queue} {summarise_call(task)}".rstrip() + guard_text)
    if task.timeout and (limit := timeout_in_words(task.timeout)):
        line.children.append(Line(limit))
    line.children += [_sink(sink) for sink in task.sinks]
    line.children += _sets(task.set)
    if task.output:
        line.children += [Line(f"{part.name} is {part.path} of its result") for part in task.output.select]
    if task.policy:
        line.children += _rules(task.policy)
    return line


def _sink(sink: Sink) -> Line:
    guarantee = rows_guarantee(sink)
    return Line(f"{sink_in_words(sink)}{f', rows {guarantee.how_often}' if guarantee else ''}")


def _rules(policy: Policy) -> list[Line]:
    """Return the rules of a task. A last rule without a condition is marked ``otherwise``."""
    lines = [Line(rule_in_words(rule)) for rule in policy.rules]
    if len(lines) > 1 and read_condition(policy.rules[-1].when, policy.rules[-1].on_status) == Condition():
        lines[-1].text = f"otherwise {lines[-1].text}"
    if policy.unmatched == "continue" and not matches_every_error(policy):
        lines.append(Line("an error that no rule matches is ignored"))
    if policy.circuit:
        lines.append(Line(circuit_in_words(policy.circuit)))
    return lines


def matches_every_error(policy: Policy) -> bool:
    """Whether the rules match every error, so that ``unmatched`` never applies."""
    return any(
        read_condition(rule.when, rule.on_status)[1:] == ("", "") and rule.on_status != "ok" for rule in policy.rules
    )


def _sets(assigns: tuple[Assign, ...]) -> list[Line]:
    return [Line(assign_in_words(assign)) for assign in assigns]


def routes(graph: Graph, step: Step) -> list[Line]:
    """Return the routes of a step in order, and the implicit one to the final step."""
    follows_all = len(step.route.arcs) > 1 and step.route.mode == "inclusive"
    lines = [Line(_route(arc, "loop" if step.loop else "call")) for arc in step.route.arcs]
    if len(lines) > 1 and not follows_all and lines[-1].text.startswith("then "):
        lines[-1].text = lines[-1].text.replace("then", "otherwise", 1)
    if can_fall_to_final(graph, step):
        lines.append(Line(f"{'otherwise' if step.route.arcs else 'then'} -> {graph.final}"))
    return [Line("all matching routes", lines)] if follows_all else lines


def _route(arc: Arc, moment: Moment = "call") -> str:
    arc_test = arc_condition(arc, moment)
    prefix = f"{_OUTCOMES[arc_test.on_status]} {condition_in_words(arc_test)}".strip() or "then"
    return ", ".join([f"{prefix} -> {arc.target}", *sets_in_words(arc.set)])
