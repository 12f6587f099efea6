"""Compares a run with what its test expects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from noetl_compiler.graph import Graph, Json, Span
from noetl_compiler.nodes import MappingNode, Node, SequenceNode, to_json
from noetl_compiler.playbook_tests import ExpectedCalls, PlaybookTest
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.playbook_tests.differences import ABSENT, ANYTHING, Path, differences, is_match, span_at
from noetl_temporal.playbook_tests.host import TrialCall, TrialRun
from noetl_temporal.playbook_tests.stubs import StubbedWorld, is_call_of

__all__ = ["TrialProblem", "failed_expectations", "location_of", "route_of"]

_MAX_LISTED = 12
"""Events or calls that a problem lists."""


@dataclass(frozen=True)
class TrialProblem:
    """Why a test failed. ``span`` is in the test file, ``location`` (file:line:col) in the playbook. ``expected`` and
    ``actual`` are ABSENT if nothing is compared.
    """

    span: Span
    message: str
    expected: Any = ABSENT
    actual: Any = ABSENT
    location: str = ""

    @property
    def is_comparison(self) -> bool:
        """Whether there is an expected or an actual value to show."""
        return self.expected is not ABSENT or self.actual is not ABSENT


def location_of(graph: Graph, step: str, task: str | None = None) -> str:
    """Return the location (file:line:col) of the step, or of its task; "" if the graph has no such step."""
    steps = graph.steps.get(step)
    if steps is None:
        return ""
    span = next((item.span for item in steps.tasks if item.label == task), steps.span)
    return f"{graph.source.file}:{span.line}:{span.col}"


def failed_expectations(test: PlaybookTest, graph: Graph, run: TrialRun, world: StubbedWorld) -> Iterator[TrialProblem]:
    """Yield every expectation that is not met."""
    expected = test.expected
    yield from _status_problems(test, graph, run)
    for key, actual in _compared_values(expected, run, world).items():
        node = expected[key]
        yield from _comparison_problems(key, node, actual, _location_of_first_difference(key, node, actual, graph))
    if "steps" in expected:
        yield from _step_problems(expected["steps"], route_of(run), graph)
    if "events" in expected:
        yield from _event_problems(expected["events"], run.events, graph)
    for calls in test.calls:
        yield from _call_problems(calls, run.calls, graph)


def _comparison_problems(subject: str, node: Node, actual: Any, location: str = "") -> Iterator[TrialProblem]:
    for difference in differences(to_json(node), actual):
        yield TrialProblem(
            span_at(node, difference.path),
            f"{subject}{_path_text(difference.path)} differs",
            difference.expected,
            difference.actual,
            location,
        )


def _path_text(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def _status_problems(test: PlaybookTest, graph: Graph, run: TrialRun) -> Iterator[TrialProblem]:
    """Check the status: "completed" unless the test expects another. A failure is reported with its cause."""
    node = test.expected.get("status")
    expected = "completed" if node is None else to_json(node)
    if expected == run.finish.status:
        return
    span = test.span if node is None else node.span
    cause = run.finish.failures.cause
    if cause is None:
        yield TrialProblem(span, "status differs", expected, run.finish.status)
        return
    message = f"status differs: {cause.step} failed with {cause.kind}: {cause.message}"
    location = f"{cause.file}:{cause.line}:{cause.col}" if cause.line else location_of(graph, cause.step, cause.task)
    yield TrialProblem(span, message, expected, run.finish.status, location)


def _compared_values(expected: dict[str, Node], run: TrialRun, world: StubbedWorld) -> dict[str, Any]:
    """Return the actual values for the keys that the test expects."""
    expected_results = _keys(expected.get("results"))
    fields: dict[str, Any] = {
        "route": route_of(run),
        "result": run.finish.result,
        "results": {name: result for name, result in run.results.items() if name in expected_results},
        "stored": world.stored,
        "delays": run.delays,
        "failures": _failure_fields(expected.get("failures"), run),
    }
    return {key: actual for key, actual in fields.items() if key in expected}


def _keys(node: Node | None) -> set[str]:
    return {key.text for key, _ in node.entries} if isinstance(node, MappingNode) else set()


def _items(node: Node | None) -> tuple[Node, ...]:
    return node.items if isinstance(node, SequenceNode) else ()


def _location_of_first_difference(key: str, node: Node, actual: Any, graph: Graph) -> str:
    """Return the location of the step where the route or a result first differs; "" for other keys."""
    first = next(differences(to_json(node), actual), None)
    if first is None or not first.path:
        return ""
    if key == "results":
        return location_of(graph, str(first.path[0]))
    if key == "route":
        index = int(first.path[0])
        return location_of(graph, actual[min(index, len(actual) - 1)] if actual else graph.entry)
    return ""


# ---- routes, events, failures ----------------------------------------------------------------------------------------


def route_of(run: TrialRun) -> list[str]:
    """Return the steps of the playbook that started, in order."""
    return [event.node for event in run.events if event.type == "step.started" and not event.meta.get("synthetic")]


def _step_problems(node: Node, route: list[str], graph: Graph) -> Iterator[TrialProblem]:
    expected = [str(to_json(item)) for item in _items(node)]
    for index, name in enumerate(expected):
        if name not in (*route, ANYTHING):
            yield TrialProblem(span_at(node, (index,)), f"{name} did not start", location=location_of(graph, name))
    for name in dict.fromkeys(route) if ANYTHING not in expected else ():
        if name not in expected:
            yield TrialProblem(node.span, f"{name} started", location=location_of(graph, name))


def _event_problems(node: Node, events: list[DomainEvent], graph: Graph) -> Iterator[TrialProblem]:
    """Check that the expected events occur in this order; others may be between them."""
    start_index = 0
    for item in _items(node):
        expected: dict[str, Json] = {"type": to_json(item)}
        if isinstance(item, MappingNode):
            expected = cast("dict[str, Json]", to_json(item))
        index = next((index for index in range(start_index, len(events)) if _is_event(expected, events[index])), None)
        if index is None:
            later_events = [f"{event.type} {event.node}" for event in events[start_index:]]
            location = location_of(graph, str(expected.get("node")))
            yield TrialProblem(item.span, "there is no such event here", expected, _first_names(later_events), location)
            return
        start_index = index + 1


def _is_event(expected: dict[str, Json], event: DomainEvent) -> bool:
    fields = msgspec.structs.asdict(event)
    return is_match(expected, {key: fields[key] for key in expected})


def _failure_fields(node: Node | None, run: TrialRun) -> list[Json]:
    """Return the fields of each failure that the test names; of further failures, the fields that identify them."""
    expected_fields = [[key.text for key, _ in item.entries] for item in _items(node) if isinstance(item, MappingNode)]
    failures = [msgspec.structs.asdict(failure) for failure in run.finish.failures.detailed]
    identifying_keys = ["step", "kind", "message"]
    return [
        {key: failure[key] for key in (expected_fields[index] if index < len(expected_fields) else identifying_keys)}
        for index, failure in enumerate(failures)
    ]


# ---- calls -----------------------------------------------------------------------------------------------------------


def _call_problems(expected: ExpectedCalls, calls: list[TrialCall], graph: Graph) -> Iterator[TrialProblem]:
    matching_calls = [trial_call for trial_call in calls if is_call_of(expected.calls, trial_call.call)]
    location = location_of(graph, expected.calls.step.text, expected.calls.task.text if expected.calls.task else None)
    if not matching_calls and expected.times != 0:
        call_names = _first_names([_name(trial_call) for trial_call in calls])
        yield TrialProblem(expected.span, "there is no such call", str(expected.calls), call_names, location)
    elif expected.times is not None and len(matching_calls) != expected.times:
        yield TrialProblem(
            expected.span, f"number of calls of {expected.calls} differs", expected.times, len(matching_calls), location
        )
    for call in matching_calls:
        fields = {"attempts": call.attempts, "config": call.call.config, "input": call.call.input}
        for key, node in expected.expected_values.items():
            yield from _comparison_problems(f"{_name(call)}: {key}", node, fields[key], location)


def _name(trial_call: TrialCall) -> str:
    call = trial_call.call
    more = (("iteration", call.iteration), ("page", call.page))
    return ", ".join((call.step, f"task {call.task}", *(f"{word} {part}" for word, part in more if part is not None)))


def _first_names(names: list[str]) -> list[str]:
    more = len(names) - _MAX_LISTED
    return [*names[:_MAX_LISTED], f"and {more} more"] if more > 0 else names
