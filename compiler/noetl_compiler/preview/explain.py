"""Explains what a step compiles to and why: where each part is in the playbook, and its counterpart on Temporal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from noetl_compiler.conditions import Moment, arc_condition
from noetl_compiler.forecasting.counts import loops_around
from noetl_compiler.graph import AdmitRule, Arc, Assign, Graph, Json, Loop, Rule, Sink, Step, Task
from noetl_compiler.guarantees import call_guarantee, rows_guarantee
from noetl_compiler.language.names import PASSED_ROOT
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.language.tools import KINDS
from noetl_compiler.preview.key_paths import KeyPathLookup
from noetl_compiler.preview.order import can_fall_to_final
from noetl_compiler.preview.outline import Line, matches_every_error
from noetl_compiler.preview.phrases import (
    assign_in_words,
    circuit_in_words,
    duration_in_words,
    guard_in_words,
    loop_in_words,
    rule_in_words,
    sink_in_words,
    timeout_in_words,
    value_text,
    when_in_words,
)
from noetl_compiler.preview.tree import draw
from noetl_compiler.templates import read_paths
from noetl_compiler.templating.default_on_status import default_on_status
from noetl_compiler.value_merge import mapping_of

__all__ = ["Explainer", "explain"]

_ACTIONS = {
    "retry": "Temporal retries the same activity, and shows the attempt and its cause",
    "again": "a new activity with the changed call, so history records each page",
    "jump": "the pipeline continues there, with a new activity",
    "break": "the remaining tasks are skipped, the step succeeds",
    "fail": "the step fails",
    "continue": "the next task, or the end of the step",
}
_BOUNDARIES = {
    "ok": "after success only",
    "error": "after failure only, which it handles",
    "any": "after success or failure, as its condition reads the outcome; it handles the failure",
}


def explain(
    graph: Graph, name: str, key_paths: KeyPathLookup | None = None, width: int | None = None, tools: Tools = KINDS
) -> str:
    """Explain one step as a tree of text, without a trailing newline.

    ``width`` wraps lines at that many columns; ``key_paths`` adds the keys of the playbook from which each part was
    compiled. Raises KeyError for an unknown step.
    """
    return Explainer(graph, key_paths, tools).explain(name, width)


class Explainer:
    """Explains the steps of a graph; predecessors and enclosing loops are computed once."""

    def __init__(self, graph: Graph, key_paths: KeyPathLookup | None = None, tools: Tools = KINDS) -> None:
        self._graph, self._key_paths, self._tools = graph, key_paths or KeyPathLookup(), tools
        self._enclosing_loops = loops_around(graph)
        self._predecessors: dict[str, list[str]] = {}
        for step in graph.steps.values():
            for target in dict.fromkeys(arc.target for arc in step.route.arcs):
                self._predecessors.setdefault(target, []).append(step.name)

    def explain(self, name: str, width: int | None = None) -> str:
        """Explain one step; see :func:`explain`."""
        step, key_paths = self._graph.steps[name], self._key_paths
        enclosing_loops, predecessors = self._enclosing_loops[name], self._predecessors.get(name, ())
        explanation = _Explanation(self._graph, step, key_paths, enclosing_loops, predecessors, self._tools)
        return "\n".join(draw(explanation.line(), width=width))


class _Explanation:
    """The explanation of one step. ``enclosing_loops``: innermost first."""

    def __init__(
        self,
        graph: Graph,
        step: Step,
        key_paths: KeyPathLookup,
        enclosing_loops: Sequence[str],
        predecessors: Sequence[str],
        tools: Tools,
    ) -> None:
        self._tools = tools
        self._graph, self._step, self._key_paths = graph, step, key_paths
        self._enclosing_loops, self._predecessors = enclosing_loops, predecessors

    def line(self) -> Line:
        position = f"{self._graph.source.file}:{self._step.span.line}:{self._step.span.col}"
        parts = (self._origin, self._arrival, self._entering_lines, self._loop, self._tasks, self._ending, self._routes)
        return Line(f"{self._step.name}  {position}", [line for part in parts for line in part()])

    def _origin(self) -> Iterator[Line]:
        graph, step = self._graph, self._step
        if step.injected and step.name == graph.final:
            yield Line("added: every branch needs a final step, and the playbook has no step of this name")
        elif step.injected and step.join == "each":
            yield Line("added: every branch of an iteration ends here, and its results are collected")
        elif step.injected:
            yield Line(f"added: the choice at line {step.span.line} has several targets, this step leads to all")
        for name in self._enclosing_loops[:1]:
            loop = graph.steps[name].loop
            yield Line(f"runs in the workflow of the loop {name}, for each {loop.element if loop else ''}".rstrip())
        if step.name == graph.entry:
            yield Line("a run starts here")
        if step.name == graph.final:
            yield Line(
                "a run ends here when no other branch is active: failed if a failure was not handled, else completed"
            )

    def _arrival(self) -> Iterator[Line]:
        step = self._step
        if len(self._predecessors) > 1 and step.join == "wave":
            names = ", ".join(self._predecessors)
            yield Line(f"reached from {names}: runs once, when no active branch can still reach it")
        elif step.join != "wave":
            yield Line("runs for each arrival" if step.join == "each" else "runs at the first arrival of several")
        for rule in step.admit:
            verb = "runs" if rule.allow else "is skipped"
            yield self._at(f"{verb} {when_in_words(rule.when) or 'otherwise'}", rule)

    def _entering_lines(self) -> Iterator[Line]:
        for name, value in mapping_of(self._step.args).items():
            yield Line(f"{name} is bound to {_value_text(value)}")
        for rule in self._step.enter:
            guard_text = guard_in_words(rule.guard, "enter") if rule.guard else ""
            yield from (Line(f"on entering{guard_text and f', {guard_text}'}, {text}") for text in _sets(rule.set))
        if self._step.timeout and self._step.timeout.total:
            yield Line(f"at most {duration_in_words(self._step.timeout.total)}: a timer, then an error of kind timeout")

    def _loop(self) -> Iterator[Line]:
        loop = self._step.loop
        if loop is None:
            return
        line = self._at(loop_in_words(loop), loop)
        if loop.frame is None:
            host = "child workflows noetl.loop, one for a few hundred items, which keeps histories short"
        else:
            host = "activities noetl.frame, which run the items; a lost one resumes at its last heartbeat"
        line.children.append(Line(host))
        if loop.entry_route is not None and not loop.end:
            line.children += [
                Line(f"an item continues {self._route(arc, 'call').text}") for arc in loop.entry_route.arcs
            ]
            line.children.append(
                Line("an iteration ends when its routes have ended, and counts as in flight until then")
            )
        elif loop.entry_route is not None:
            begins = ", ".join(arc.target for arc in loop.entry_route.arcs)
            line.children.append(
                Line(f"an iteration starts at {begins} and ends at {loop.end}, or when no branch is active")
            )
        if loop.is_parallel:
            line.children.append(
                Line("results are in the order of the items; names set by iterations are merged at the end")
            )
        yield line

    def _tasks(self) -> Iterator[Line]:
        if not self._step.tasks and self._step.loop is None:
            yield Line("no task: no activity is called, the workflow only evaluates the route")
        for task in self._step.tasks:
            line = self._at(f"{task.label}: an activity noetl.{task.kind} on the queue of {task.queue}", task)
            line.children = [
                *_guard_lines(task),
                *_call(task, self._tools),
                *map(self._sink, task.sinks),
                *self._policy(task),
            ]
            yield line

    def _sink(self, sink: Sink) -> Line:
        line, guarantee = self._at(sink_in_words(sink), sink), rows_guarantee(sink)
        line.children = [Line(f"rows {guarantee}")] if guarantee else []
        return line

    def _policy(self, task: Task) -> Iterator[Line]:
        if task.policy is None:
            yield Line("no policy: an error fails the step")
            return
        for rule in task.policy.rules:
            line = self._at(rule_in_words(rule), rule)
            line.children = [Line(_ACTIONS[rule.do])]
            yield line
        if not matches_every_error(task.policy):
            consequence = "is ignored" if task.policy.unmatched == "continue" else "fails the step"
            yield Line(f"an error that no rule matches {consequence}")

    def _ending(self) -> Iterator[Line]:
        yield from (Line(f"then {text}") for text in _sets(self._step.set))
        if self._step.result is not None:
            yield Line(f"its result is {value_text(self._step.result)}")

    def _routes(self) -> Iterator[Line]:
        route = self._step.route
        if self._step.name == self._graph.final or (not route.arcs and self._step.join == "each"):
            return
        mode = (
            "all matching routes are followed" if route.mode == "inclusive" else "the first matching route is followed"
        )
        moment: Moment = "loop" if self._step.loop else "call"
        routes = [*(self._route(arc, moment) for arc in route.arcs), *self._otherwise()]
        yield Line(mode if len(route.arcs) > 1 else "route", routes)

    def _route(self, arc: Arc, moment: Moment) -> Line:
        arc_test = arc_condition(arc, moment)
        when = when_in_words(arc.when)
        reason = (
            ", as its condition does not read the outcome"
            if arc.on_status == default_on_status(arc.when) == "ok"
            else ""
        )
        line = self._at(f"-> {arc.target} {when}".rstrip(), arc)
        line.children = [Line(f"{_BOUNDARIES[arc_test.on_status]}{reason}"), *map(Line, _sets(arc.set))]
        return line

    def _otherwise(self) -> Iterator[Line]:
        graph, step = self._graph, self._step
        if can_fall_to_final(graph, step):
            yield Line(f"-> {graph.final} if no route matches")
        if all(arc.on_status == "ok" for arc in step.route.arcs):
            yield Line(f"-> {graph.final} after an unhandled failure, which fails the playbook")

    def _at(self, text: str, part: Arc | Loop | Rule | Sink | Task | AdmitRule) -> Line:
        return Line(f"{text}  {self._key_paths.describe(part.span, self._step.span)}")


def _guard_lines(task: Task) -> Iterator[Line]:
    if task.guard is not None:
        guard_text = guard_in_words(task.guard)
        yield Line("runs after the step's own task and reads its outcome; its result is not the step's")
        yield Line(
            guard_text if guard_text.startswith("unless") else f"only {guard_text}" if guard_text else "every time"
        )


def _call(task: Task, tools: Tools) -> Iterator[Line]:
    if task.auth:
        yield Line("its credential is resolved inside the activity and never written to history")
    if task.timeout and (limit := timeout_in_words(task.timeout)):
        yield Line(f"{limit}; then an error of kind timeout")
    if (guarantee := call_guarantee(task, tools)) is not None:
        yield Line(str(guarantee))
    if task.idempotency_key:
        yield Line(f"sends its idempotency key in the header {task.idempotency_key}, the same for every attempt")
    if task.policy and task.policy.circuit:
        yield Line(circuit_in_words(task.policy.circuit))
    yield from (Line(f"then {text}") for text in _sets(task.set))


def _sets(assigns: tuple[Assign, ...]) -> Iterator[str]:
    for assign in assigns:
        if assign.target.startswith(PASSED_ROOT):
            yield from (f"passes {name} = {_value_text(value)}" for name, value in mapping_of(assign.value).items())
        else:
            yield assign_in_words(assign).replace(" ", "s ", 1)


def _value_text(value: Json) -> str:
    """Return a value in words; an internal name of the compiler is replaced by its meaning."""
    paths_read = read_paths(value) if isinstance(value, str) else ()
    if PASSED_ROOT.rstrip(".") in paths_read:
        return "the value that the incoming route passes"
    return value_text(value)
