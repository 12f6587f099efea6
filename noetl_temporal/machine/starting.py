"""The start of a playbook's run: with its workload and first step, or with the state of an earlier run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from noetl_compiler import templates
from noetl_compiler.graph import Json
from noetl_temporal.machine import large_values
from noetl_temporal.machine.facts import RerunSource, Started
from noetl_temporal.machine.failure_log import Failure
from noetl_temporal.machine.failures import failure_at, template_outcome
from noetl_temporal.machine.holding import Holding
from noetl_temporal.machine.journal import COMBINED_BYTES
from noetl_temporal.machine.keychain import Keychain
from noetl_temporal.machine.names import playbook_scope
from noetl_temporal.machine.reruns import emit_reused, reuse_state
from noetl_temporal.machine.state import PlaybookState
from noetl_temporal.machine.tasks.rendering import seconds_of
from noetl_temporal.machine.workload import workload_of
from noetl_temporal.shortening import abridge_values

__all__ = ["DEADLINE", "Observer", "Starting"]

DEADLINE = "playbook:timeout"
"""The id of the timer that ends the run at its timeout."""

Observer: TypeAlias = Callable[[str, PlaybookState], None]
"""Called for each step that is about to start, with the state at that time, which it must not change. A start that is
rolled back, because a value has to be loaded first, is reported again.
"""


class Starting(Holding):
    """A machine that begins a run."""

    observer: Observer | None = None
    execution_id: int
    _keychain: Keychain

    def _start(self, fact: Started) -> None:
        state, emit, path, earlier = self.state, self._journal.emit, self.graph.source.path, fact.rerun
        state.payload, state.return_step = fact.payload, fact.return_step
        origin = _rerun_origin(earlier)
        request_id = emit("playbook.execution.requested", path, "playbook", "PENDING", meta={**origin})
        try:
            if fact.load_error:
                raise templates.TemplateFailure(fact.load_error)
            if earlier is None:
                state.workload = workload_of(self.graph.workload, fact.payload, self.execution_id, fact.at)
                state.arrivals.append((self.graph.entry, ""))
            else:
                reuse_state(state, earlier, self._keychain.key)
            large_values.add_request_references(state, fact.stored_payload, has_workload=earlier is None)
            large_values.mark_request_values(state)
            seconds = self._seconds_of_playbook(fact.at)
        except templates.TemplateFailure as failure:
            self._refuse(failure, request_id)
            return
        emit(
            "playbook.request.evaluated",
            path,
            "playbook",
            "COMPLETED",
            parent=request_id,
            context=self._evaluated_workload(fact),
        )
        state.playbook_id = emit("playbook.started", path, "playbook", "STARTED", parent=request_id, meta={**origin})
        entry = self.graph.entry if earlier is None else earlier.step
        state.workflow_id = emit(
            "workflow.started", "workflow", "workflow", "STARTED", parent=state.playbook_id, entry=entry
        )
        if earlier is not None:
            emit_reused(self._execution, earlier)
        if seconds is not None:
            self._start_timer(DEADLINE, "deadline", "", seconds, f"playbook times out in {seconds:g} s")

    def _evaluated_workload(self, fact: Started) -> dict[str, Json]:
        """Return the workload for the log; nothing if it equals the playbook's workload with the request's payload."""
        workload, graph = self.state.workload, self.graph.workload
        is_as_given = workload == {**(graph.data or {}), **fact.payload}
        return {} if is_as_given else {"workload": abridge_values(workload, COMBINED_BYTES)}

    def _seconds_of_playbook(self, at: int) -> float | None:
        limit = self.graph.timeout.total if self.graph.timeout else None
        graph = self.graph
        scope = playbook_scope(self.state, graph.names, graph.steps, self._keychain, self.execution_id, at, None, ())
        return seconds_of(limit, scope, "timeout")

    def _refuse(self, failure: templates.TemplateFailure, request_id: int) -> None:
        """Fail the run, because the workload cannot be evaluated."""
        span = failure.span or self.graph.steps[self.graph.entry].span
        self._record_failure(failure_at(self.graph.source, "workload", template_outcome(failure), span))
        path, emit = self.graph.source.path, self._journal.emit
        for type_ in ("playbook.request.evaluated", "playbook.failed"):
            emit(type_, path, "playbook", "FAILED", parent=request_id, error=failure.message, span=span)
        self._finish()

    @abstractmethod
    def _record_failure(self, failure: Failure) -> None:
        """Record a failure of the run itself."""

    @abstractmethod
    def _finish(self) -> None:
        """End the run."""


def _rerun_origin(earlier: RerunSource | None) -> dict[str, Json]:
    """Return the metadata of a rerun for its first events. The execution id is text, since it exceeds 2^53."""
    return {} if earlier is None else {"rerun_of": str(earlier.execution_id), "rerun_from": earlier.step}
