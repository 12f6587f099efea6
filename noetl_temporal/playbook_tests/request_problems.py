"""The problems of the requests of a test: those that the run refused or never waited for, and missing ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from noetl_compiler.graph import Graph
from noetl_compiler.playbook_tests import PlaybookTest, Request
from noetl_temporal.machine.waits.wait import Signal, Wait
from noetl_temporal.playbook_tests.expectations import TrialProblem, location_of
from noetl_temporal.playbook_tests.requests import Requests, Situation

__all__ = ["request_problems", "stuck_problems"]

_NEVER_DUE = {
    "signal": "the run never waited for this signal",
    "approve": "the run never waited for this approval",
    "reject": "the run never waited for this approval",
    "pause": "the run ended before this pause",
    "cancel": "the run ended before this cancel",
    "resume": "the run was never paused when this came",
    "retry": "no such step was held",
    "skip": "no such step was held",
}


def request_problems(graph: Graph, requests: Requests, unused_signals: Sequence[Signal]) -> Iterator[TrialProblem]:
    """Yield the problems of requests that were refused, never sent, or that no step took."""
    for request, reason in requests.refusals:
        yield TrialProblem(
            request.span,
            f"the run refused to {_request_text(request)}: {reason}",
            location=_location_of_step(graph, request),
        )
    for request in requests.pending:
        reason = _NEVER_DUE[request.do] if request.at is None else "the run ended before this"
        yield TrialProblem(request.span, f"{reason}: {request}", location=_location_of_step(graph, request))
    signals = [replace(signal, request_id=0) for signal in unused_signals]
    for request in reversed(requests.signals):
        sent_signal = Signal(request.name.text if request.name else "", request.data, request.key)
        if sent_signal in signals:
            signals.remove(sent_signal)
            yield TrialProblem(request.span, f"no step took the signal {sent_signal.name}")


def _request_text(request: Request) -> str:
    return f"take {request}" if request.do == "signal" else str(request)


def _location_of_step(graph: Graph, request: Request) -> str:
    return location_of(graph, request.step.text) if request.step else ""


# ---- a run that cannot continue -------------------------------------------------------------------------------------


def stuck_problems(test: PlaybookTest, graph: Graph, situation: Situation | None) -> Iterator[TrialProblem]:
    """Yield why a run cannot continue: a problem for each thing that it waits for."""
    if situation is not None and situation.open_waits.pause is not None:
        yield TrialProblem(test.span, "the run is paused, and nothing resumes it: add {do: resume} to requests")
    waits = situation.open_waits.waits if situation is not None else []
    for wait in waits:
        location = location_of(graph, wait.step, wait.task)
        yield TrialProblem(
            test.span, f"{_wait_text(wait)}; add it to requests, such as {_example(wait)}", location=location
        )
    if situation is None or not (waits or situation.open_waits.pause):
        yield TrialProblem(test.span, "the run waits for something that never happens")


def _wait_text(wait: Wait) -> str:
    if wait.kind == "approval":
        return f"{wait.name} waits for an approval without a timeout, and nobody decides"
    key = f" with the key {wait.key}" if wait.key is not None else ""
    return f"{wait.name} waits for the signal {wait.signal}{key} without a timeout, and nothing sends it"


def _example(wait: Wait) -> str:
    if wait.kind == "approval":
        item = "" if wait.iteration is None else f", iteration: {wait.iteration}"
        return f"{{do: approve, step: {wait.step}{item}}}"
    key = f", key: {wait.key}" if wait.key is not None else ""
    return f"{{do: signal, name: {wait.signal}{key}, data: ...}}"
