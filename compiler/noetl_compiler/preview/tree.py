"""A graph as a tree of plain text for a terminal: each step with its tasks, their rules, and the ways on."""

from __future__ import annotations

from dataclasses import dataclass, field

from noetl_compiler.diagnostics import printable
from noetl_compiler.graph import Arc, Assign, Graph, Step, Task
from noetl_compiler.preview.order import falls_to_final, reading_order, unreached
from noetl_compiler.preview.words import condition, loop_in_words, rule_in_words, shown, sink_in_words

__all__ = ["tree"]

_WAYS = {"ok": "then", "error": "if it fails", "any": "either way"}


@dataclass(slots=True)
class _Line:
    text: str
    below: list[_Line] = field(default_factory=list["_Line"])


def tree(graph: Graph) -> str:
    """Many lines without a line break at the end."""
    dead = set(unreached(graph))
    lines = _head(graph)
    for step in reading_order(graph):
        lines += ["", *_drawn(_step(graph, step, step.name in dead))]
    return "\n".join(lines)


def _head(graph: Graph) -> list[str]:
    source = graph.source
    queues = sorted({task.queue for step in graph.steps.values() for task in step.tasks})
    count = f"{len(graph.steps)} step{'s' * (len(graph.steps) != 1)}"
    name = source.name if source.path in ("", source.name) else f"{source.name} ({source.path})"
    stops = "; the first failure stops the other branches" if graph.failure == "fail_fast" else ""
    return [
        f"{name}: {count}, dialect {source.dialect}",
        f"starts at {graph.entry}, ends at {graph.final}; a failed step without a way on goes to {graph.final}{stops}",
        f"task queues: {', '.join(queues) or 'none'}",
    ]


def _step(graph: Graph, step: Step, dead: bool) -> _Line:
    marks = " (added)" if step.injected else " (no way leads here)" if dead else ""
    line = _Line(f"{step.name}{marks}{'  ' if step.desc else ''}{' '.join(step.desc.split())}")
    for rule in step.admit:
        line.below.append(_Line(f"{'admit' if rule.allow else 'skip'} {condition(rule.when)}".rstrip()))
    if step.loop:
        line.below.append(_Line(loop_in_words(step.loop)))
    if step.join != "wave":
        line.below.append(_Line("runs for each arrival" if step.join == "each" else "runs at the first arrival"))
    if step.timeout and step.timeout.total:
        line.below.append(_Line(f"at most {shown(step.timeout.total)} s"))
    line.below += [_task(task) for task in step.tasks]
    line.below += [*_sets(step.set), *_ways(graph, step)]
    return line


def _task(task: Task) -> _Line:
    queue = "" if task.queue == task.kind else f" on queue {task.queue}"
    line = _Line(f"{task.label} [{task.kind}]{queue}")
    if task.timeout and task.timeout.total:
        line.below.append(_Line(f"at most {shown(task.timeout.total)} s a call"))
    if not task.idempotent:
        line.below.append(_Line("not called again when its worker is lost"))
    line.below += [_Line(sink_in_words(sink)) for sink in task.sinks]
    line.below += _sets(task.set)
    if task.policy:
        line.below += [_Line(rule_in_words(rule)) for rule in task.policy.rules]
        closed = any(rule.when is None and rule.on != "ok" for rule in task.policy.rules)
        if not closed and task.policy.unmatched == "continue":
            line.below.append(_Line("an error no rule matches is passed over"))
    return line


def _sets(assigns: tuple[Assign, ...]) -> list[_Line]:
    return [_Line(f"set {assign.target} = {shown(assign.value)}") for assign in assigns]


def _ways(graph: Graph, step: Step) -> list[_Line]:
    """The arcs in order, and where the step goes without any."""
    several = len(step.route.arcs) > 1 and step.route.mode == "inclusive"
    ways = [_Line(_way(arc)) for arc in step.route.arcs]
    if falls_to_final(graph, step):
        ways.append(_Line(f"{'otherwise' if step.route.arcs else 'then'} -> {graph.final}"))
    return [_Line("every way that matches", ways)] if several else ways


def _way(arc: Arc) -> str:
    sets = f", set {', '.join(assign.target for assign in arc.set)}" if arc.set else ""
    way = f"{_WAYS[arc.on]} {condition(arc.when)}".rstrip() if arc.on != "ok" or not arc.when else condition(arc.when)
    return f"{way} -> {arc.to}{sets}"


def _drawn(line: _Line, first: str = "", rest: str = "") -> list[str]:
    lines = [f"{first}{printable(line.text)}"]
    for index, below in enumerate(line.below):
        last = index == len(line.below) - 1
        lines += _drawn(below, f"{rest}{'└─ ' if last else '├─ '}", f"{rest}{'   ' if last else '│  '}")
    return lines
