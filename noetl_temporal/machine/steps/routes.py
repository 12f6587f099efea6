"""The way on from a step: which arcs are taken, what they set, and what became of a failure."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from noetl_compiler import templates
from noetl_compiler.graph import Step
from noetl_temporal.machine.call import Outcome
from noetl_temporal.machine.events import Failure
from noetl_temporal.machine.failing import failure_at, template_outcome
from noetl_temporal.machine.loops.result import ITEMS_FAILED
from noetl_temporal.machine.routing import Selection, select
from noetl_temporal.machine.scope import Late, call_names, event_names
from noetl_temporal.machine.state import StepRun
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.tasks.pipeline import End
from noetl_temporal.machine.undefined import is_reported

__all__ = ["OK", "Ended", "add_failures", "route"]

OK: Outcome = {"status": "ok", "result": None}
"""What a step comes to that called nothing."""

_BOUNDARIES = {"completed": "step.done", "failed": "step.failed", "skipped": "step.skipped"}


class Ended(NamedTuple):
    """A run of a step is over; its token goes to ``targets``. ``fail_fast``: an unhandled failure that stops the
    others.
    """

    step: str
    targets: tuple[str, ...]
    fail_fast: bool = False


def route(execution: Execution, step: Step, run: StepRun, status: str, end: End, kind: str = "") -> Ended:
    """Choose the arcs, apply their ``set``, and say what became of a failure. ``status`` is the run's."""
    failed = status == "failed"
    if step.name == execution.graph.final or execution.state.stop is not None:
        return _failed(execution, step, run, end, ()) if failed else Ended(step.name, (execution.graph.final,))
    scope = Late(lambda: execution.host(step, run).scope(_names(execution, step, status, end, kind)))
    try:
        chosen = select(step.route, "error" if failed else "ok", scope)
        _emit(execution, step, run, chosen)
        if status == "completed" and is_reported(
            execution.graph.source.dialect, (bool(arc.when) for arc in chosen.arcs)
        ):
            for one in chosen.mistakes:
                execution.host(step, run).warn(one.message, one.span)
        sets = [(one.target, templates.render(one.value, scope)) for arc in chosen.arcs for one in arc.set]
        if sets:
            execution.host(step, run).assign(sets)
    except templates.TemplateFailure as failure:
        raised = End("error", template_outcome(failure), None, failure.span or step.span)
        return _failed(execution, step, run, raised, ())
    targets = tuple(arc.to for arc in chosen.arcs)
    if failed:
        return _failed(execution, step, run, end, targets)
    if not targets and step.route.on_no_match == "end":
        targets = (execution.graph.final,)
    return Ended(step.name, targets)


def _names(execution: Execution, step: Step, status: str, end: End, kind: str) -> dict[str, Any]:
    return {
        **call_names(execution.graph.source.dialect, step.name, kind, end.outcome),
        **event_names(_boundary(step, status), step.name, end.outcome),
    }


def _boundary(step: Step, status: str) -> str:
    name = _BOUNDARIES[status]
    return name.replace("step.", "loop.") if step.loop is not None and status != "skipped" else name


def _emit(execution: Execution, step: Step, run: StepRun, chosen: Selection) -> None:
    execution.journal.emit(
        "next.evaluated",
        step.name,
        "step",
        "COMPLETED",
        parent=run.event_id or execution.state.workflow_id,
        mode=step.route.mode,
        arcs=list(chosen.evaluated),
        chosen=[arc.to for arc in chosen.arcs],
        step_run_id=run.id,
    )


def _failed(execution: Execution, step: Step, run: StepRun, end: End, targets: tuple[str, ...]) -> Ended:
    """A failure is handled when an arc leads on from it, else it goes to the final step (semantics.md 4).

    Failures belong to one run of a step: what handles this run's forgives no other's. Those of a loop's items are
    recorded already, and say more than that some of them failed.
    """
    state, handled = execution.state, bool(targets)
    if handled:
        state.failures = [_handled(one) if one.run == run.id else one for one in state.failures]
    error: dict[str, Any] = end.outcome.get("error") or {}
    if not (error.get("kind") == ITEMS_FAILED and any(one.run == run.id for one in state.failures)):
        failure = failure_at(execution.graph.source, step.name, end.outcome, end.span, run=run.id, task=end.task)
        add_failures(execution, (failure,), handled)
    stops = not handled and (step.failure or execution.graph.failure) == "fail_fast"
    return Ended(step.name, targets or (execution.graph.final,), stops)


def add_failures(execution: Execution, failures: tuple[Failure, ...], handled: bool) -> None:
    """Remember what failed."""
    execution.state.failures.extend(_handled(failure) if handled else failure for failure in failures)


def _handled(failure: Failure) -> Failure:
    return replace(failure, handled=True)
