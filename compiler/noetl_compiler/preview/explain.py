"""What one step compiles to, and why: each part with its place in the playbook and what it becomes on Temporal."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.graph import Arc, Graph, Rule, Sink, Span, Step, Task
from noetl_compiler.lowering.routes import boundary
from noetl_compiler.overlay import names_in
from noetl_compiler.preview.order import falls_to_final
from noetl_compiler.preview.outline import Line
from noetl_compiler.preview.tree import drawn
from noetl_compiler.preview.words import (
    condition,
    guard_in_words,
    loop_in_words,
    rule_in_words,
    shown,
    sink_in_words,
)

__all__ = ["explain", "explanation"]

_ACTIONS = {
    "retry": "Temporal calls the same activity again, and shows the attempt and its cause",
    "again": "a new activity with the changed call, so each page stands in history",
    "jump": "the pipeline goes on there, with a new activity",
    "break": "the other tasks are left out, the step succeeds",
    "fail": "the step fails",
    "continue": "the next task, or the end of the step",
}
_BOUNDARIES = {
    "ok": "after success only",
    "error": "after a failure, which is then handled",
    "any": "after success or failure, as it asks about the outcome; a failure it takes is handled",
}


def explain(graph: Graph, name: str, width: int | None = None) -> str:
    """Many lines without a line break at the end, broken at ``width`` columns if given. Raises KeyError for a step that
    is not there.
    """
    return "\n".join(drawn(explanation(graph, graph.steps[name]), width=width))


def explanation(graph: Graph, step: Step) -> Line:
    """The step and below it every part of it."""
    return Line(
        f"{step.name}  {_place(graph, step.span)}",
        [*_origin(graph, step), *_arrival(graph, step), *_loop(step), *_tasks(step), *_ways(graph, step)],
    )


def _place(graph: Graph, span: Span) -> str:
    return f"{graph.source.file}:{span.line}:{span.col}"


def _origin(graph: Graph, step: Step) -> Iterator[Line]:
    if step.injected and step.name == graph.final:
        yield Line("added: the playbook has no step of this name, and every path has to end somewhere")
    elif step.injected:
        yield Line(f"added: a choice at line {step.span.line} has several targets, and this leads to all of them")
    if step.name == graph.entry:
        yield Line("a run begins here")
    if step.name == graph.final:
        yield Line("a run ends here, once every other path has: failed if a failure was not handled, else completed")


def _arrival(graph: Graph, step: Step) -> Iterator[Line]:
    before = [one.name for one in graph.steps.values() if any(arc.to == step.name for arc in one.route.arcs)]
    if len(before) > 1 and step.join == "wave":
        names = ", ".join(before)
        yield Line(f"reached from {names}: runs once, when no path that could still come here is on its way")
    elif step.join != "wave":
        yield Line("runs for each arrival" if step.join == "each" else "runs at the first arrival of several")
    for rule in step.admit:
        verb = "runs" if rule.allow else "is skipped"
        yield Line(f"{verb} {condition(rule.when) or 'otherwise'}  line {rule.span.line}")
    for name in names_in(step.args):
        yield Line(f"{name} is bound to {shown(step.args.data[name])}")


def _loop(step: Step) -> Iterator[Line]:
    if step.loop is None:
        return
    line = Line(f"{loop_in_words(step.loop)}  line {step.loop.span.line}")
    line.below.append(
        Line("a child workflow noetl.loop, so that its history is its own; it continues as new when long")
    )
    if step.loop.mode == "parallel":
        line.below.append(Line("results keep the order of the items; names that iterations set are applied at the end"))
    yield line


def _tasks(step: Step) -> Iterator[Line]:
    if not step.tasks and step.loop is None:
        yield Line("no task: it costs no activity, the workflow only decides where to go on")
    for task in step.tasks:
        yield Line(
            f"{task.label}: an activity noetl.{task.kind} on the queue of {task.queue}  line {task.span.line}",
            [*_aside(task), *_call(task), *map(_sink, task.sinks), *_policy(task)],
        )


def _aside(task: Task) -> Iterator[Line]:
    if task.guard is not None:
        only = guard_in_words(task.guard)
        yield Line("beside the step's own task: it sees what came of that, and its result is not the step's")
        yield Line(f"only {only}" if only else "every time")


def _call(task: Task) -> Iterator[Line]:
    if task.auth:
        yield Line("its credential is looked up in the activity, and never stands in history")
    if task.timeout and task.timeout.total:
        yield Line(f"at most {shown(task.timeout.total)} s a call; then an error of kind timeout")
    if not task.idempotent:
        yield Line("when its worker is lost it is not called again, but ends as an error of kind unknown_outcome")
    for assign in task.set:
        yield Line(f"then sets {assign.target} = {shown(assign.value)}")


def _sink(sink: Sink) -> Line:
    once = "; rows and a key are stored in one transaction, so a retry never doubles them"
    return Line(f"{sink_in_words(sink)}{once if sink.kind == 'postgres' else ''}  line {sink.span.line}")


def _policy(task: Task) -> Iterator[Line]:
    if task.policy is None:
        yield Line("no policy: success goes on, an error fails the step")
        return
    yield from map(_rule, task.policy.rules)
    closed = any(rule.when is None and rule.on != "ok" for rule in task.policy.rules)
    if not closed:
        passed = "is passed over" if task.policy.unmatched == "continue" else "fails the step"
        yield Line(f"an error that no rule matches {passed}")


def _rule(rule: Rule) -> Line:
    return Line(f"{rule_in_words(rule)}  line {rule.span.line}", [Line(_ACTIONS[rule.do])])


def _ways(graph: Graph, step: Step) -> Iterator[Line]:
    if step.name == graph.final:
        return
    several = len(step.route.arcs) > 1
    mode = (
        "every way that matches is taken" if step.route.mode == "inclusive" else "the first way that matches is taken"
    )
    yield Line(mode if several else "the way on", [*(_way(arc) for arc in step.route.arcs), *_otherwise(graph, step)])


def _way(arc: Arc) -> Line:
    why = ", as it does not ask about the outcome" if arc.on == boundary(arc.when) == "ok" else ""
    follows = Line(f"{_BOUNDARIES[arc.on]}{why}")
    line = Line(f"-> {arc.to} {condition(arc.when)}".rstrip() + f"  line {arc.span.line}", [follows])
    line.below += [Line(f"sets {assign.target} = {shown(assign.value)}") for assign in arc.set]
    return line


def _otherwise(graph: Graph, step: Step) -> Iterator[Line]:
    if falls_to_final(graph, step):
        yield Line(f"-> {graph.final} when none matches")
    if all(arc.on == "ok" for arc in step.route.arcs):
        yield Line(f"-> {graph.final} after a failure, which is not handled: the playbook will fail")
