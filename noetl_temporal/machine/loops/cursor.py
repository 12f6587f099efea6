"""The machine of a loop over a cursor: claimers take rows of a database until none is left (semantics.md 24).

How it works. A claim is a call of the database's tool, and a run of the machine like an iteration. Its rows become
iterations, ``row_concurrency`` of a claim at once, under the lease of the claim; when all of them are done the claimer
claims again. A claim that finds no row *drains* the loop: no claimer is added. The active claimers claim once more each
when their rows are done, since these may have been released, or may have led to new rows. A claim that was in flight
when another claimer finished its rows is *overtaken*: it may have read the table before that, so it does not drain the
loop.

    claim ──► rows ──► iteration: body ──► settlement: ack or release ──► end
                                     └── no statement to run ─────────────┘

The body is the tasks of the loop's step with the routes of items, or the steps of its region.

Every row that was claimed gets an iteration, also under a stop: then it is cancelled before its first call. A stop does
not prevent settlements (stopping.py, rule 4), unless a second cancel skips the cleanup; nor the end of a claim in
flight, whose rows would otherwise stay claimed.

An acknowledgement that changes no row was refused: the lease has expired, and another claimer has the row. Then the
iteration fails, whatever its outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from noetl_compiler.graph import Cursor, Json
from noetl_compiler.language.names import FRAME_MAX_ROWS
from noetl_compiler.language.words import RowError
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine.call import LeaseRenewal, PlainOutcome
from noetl_temporal.machine.commands import ChunkInput, ClaimLimits
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.failure_log import Failure
from noetl_temporal.machine.failures import error_outcome, kind_of, template_outcome
from noetl_temporal.machine.loops.claims import (
    LEASE_LOST,
    claimed_rows,
    has_changed_rows,
    lease_names,
    lease_renewal,
    may_be_released,
)
from noetl_temporal.machine.loops.host import iteration_ids
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.loops.statement_host import StatementHost, statement_plan
from noetl_temporal.machine.scope import Chain
from noetl_temporal.machine.state import Claimer, CursorProgress, Iteration, LoopState, Settlement
from noetl_temporal.machine.tasks.host import Host
from noetl_temporal.machine.tasks.plan import StepPlan
from noetl_temporal.machine.tasks.task_executions import End
from noetl_temporal.machine.views import OutcomeView

__all__ = ["CursorMachine", "loop_machine"]


def loop_machine(chunk: ChunkInput, state: Json = None, *, limit: int = INLINE_BYTES) -> LoopMachine:
    """Return the machine of a chunk in a workflow of its own. The chunk has items or claims rows."""
    kind = LoopMachine if chunk.claims is None else CursorMachine
    return kind(chunk, state, limit=limit)


class CursorMachine(LoopMachine):
    """A chunk of a loop that claims its rows from a database."""

    _progress: CursorProgress

    def __init__(self, input_: ChunkInput, state: Json = None, *, limit: int = INLINE_BYTES) -> None:
        cursor = input_.step.loop.cursor if input_.step.loop is not None else None
        if cursor is None or cursor.claim is None or input_.claims is None:
            raise ProtocolError(f"{input_.loop_id} has no cursor")
        self._cursor: Cursor = cursor
        self._limits: ClaimLimits = input_.claims
        calls = (cursor.claim, cursor.ack, cursor.release)
        self._plans = {task.label: statement_plan(input_.step, task) for task in calls if task is not None}
        super().__init__(input_, state, limit=limit)

    def _set_state(self, state: LoopState) -> None:
        super()._set_state(state)
        if state.cursor is None:
            state.cursor = CursorProgress()
        self._progress = state.cursor

    # ---- claims ---------------------------------------------------------------------------------------------------

    def _start_iterations(self) -> None:
        while self._may_start() and (number := self._next_claimer()) is not None:
            self._begin_row(number)
        while self._may_start() and self._can_claim():
            self._begin_claim()

    def _can_begin_iteration(self) -> bool:
        return self._next_claimer() is not None or self._can_claim()

    def _has_items_left(self) -> bool:
        return self._may_claim() or any(claimer.waiting for claimer in self._progress.claimers.values())

    def _next_claimer(self) -> int | None:
        """Return the number of the first claim with a row that may begin. After a stop rows begin, too, and are
        cancelled.
        """
        limit = self._limits.row_concurrency
        claimers = self._progress.claimers.items()
        return next((number for number, claimer in claimers if claimer.waiting and claimer.running < limit), None)

    def _may_claim(self) -> bool:
        """Whether more rows are to be claimed, now or later. A chunk claims at least once before it returns rows."""
        state, progress = self.state, self._progress
        is_closed = state.is_closed and progress.rows > 0
        is_over = state.stop is not None or state.failure is not None or is_closed or progress.is_drained
        return not is_over and progress.rows < self._limits.rows

    def _can_claim(self) -> bool:
        """Whether another claim may begin. At most as many claims are in flight as have found rows, so that few of them
        poll an empty table.
        """
        progress = self._progress
        claiming = sum(claimer.is_claiming for claimer in progress.claimers.values())
        is_free = len(progress.claimers) < self.input.max_in_flight and claiming < max(1, progress.claims_with_rows)
        return is_free and self._may_claim() and self._rows_to_claim() > 0

    def _rows_to_claim(self) -> int:
        """Return how many rows the next claim may take."""
        progress = self._progress
        requested = sum(claimer.requested for claimer in progress.claimers.values() if claimer.is_claiming)
        return min(self._limits.max_rows, self._limits.rows - progress.rows - requested)

    def _begin_claim(self) -> None:
        self.budget.add_work()
        progress, at = self._progress, self._journal.feed.at
        progress.claims += 1
        number = progress.claims
        progress.claimers[number] = Claimer(self._rows_to_claim(), at)
        id_ = self._run_id(f"claim-{number}")
        run = Iteration(id=id_, event_id=self.input.event_id, started=at, index=-1, claim_number=number)
        self.state.runs[run.id] = run
        self._begin_pipeline(run)

    def _claim_ended(self, run: Iteration, end: End) -> None:
        state, progress, claimer = self.state, self._progress, self._progress.claimers[run.claim_number]
        rows = self._rows_of(end)
        del state.runs[run.id]
        self._take_pipeline(run)
        claimer.is_claiming = False
        if rows:
            progress.claims_with_rows += 1
            progress.rows += len(rows)
            claimer.waiting = [rows] if self._cursor.process == "frame" else list(rows)
            return
        del progress.claimers[run.claim_number]
        progress.claims_with_rows, progress.is_drained = 0, progress.is_drained or not claimer.is_overtaken

    def _rows_of(self, end: End) -> list[Json]:
        """Return the rows that a claim took; a claim that failed fails the loop. Raises NotLoaded."""
        if end.status == "cancelled":
            return []
        outcome = end.outcome
        if end.status == "ok":
            try:
                rows = claimed_rows(outcome)
            except TemplateFailure as failure:
                outcome = template_outcome(failure)
            else:
                if rows is not None:
                    return rows
                outcome = error_outcome("config", "the statement returns no rows: add RETURNING to it")
        self.state.failure = self.state.failure or _statement_failure(outcome, "claim")
        return []

    # ---- rows -----------------------------------------------------------------------------------------------------

    def _begin_row(self, number: int) -> None:
        claimer = self._progress.claimers[number]
        claimer.running += 1
        self._begin_iteration(self.state.next_position, claim=number, row=claimer.waiting.pop(0))

    def _run_ended(self, run: Iteration, end: End, kind: str) -> None:
        if run.row is None:
            self._claim_ended(run, end)
        elif run.settlement is None:
            super()._run_ended(run, end, kind)
        else:
            self._take_pipeline(run)
            self._row_over(run, self._end_with_lease(run.settlement, end), run.settlement.cause)

    def _body_ended(self, run: Iteration, end: End, kind: str, cause: Failure | None = None) -> None:
        """See Iterations. The lease of the row ends first, if the cursor has a statement for that."""
        action = self._action(run, end)
        if action is None:
            self._row_over(run, end, cause)
            return
        run.settlement = Settlement(action, end.status, end.outcome, kind, end.task, end.span, cause)
        self._begin_pipeline(run)

    def _action(self, run: Iteration, end: End) -> RowError | None:
        ack, release = self._cursor.ack is not None, self._cursor.release is not None
        has_lost_lease = end.status == "error" and kind_of(end.outcome) == LEASE_LOST
        if has_lost_lease or (self.state.stop is not None and self.state.stop.skips_cleanup):
            return None
        if end.status == "cancelled" or (end.status == "error" and self._is_to_release(run)):
            return "release" if release else None
        return "ack" if ack else None

    def _is_to_release(self, run: Iteration) -> bool:
        try:
            return may_be_released(self._cursor, self._limits, self._statement_scope(run))
        except TemplateFailure as failure:
            message = (
                f"the row is acknowledged as failed, because it is unknown how often it was claimed: {failure.message}"
            )
            self._host(run).warn(message, self._cursor.span)
            return False

    def _end_with_lease(self, settlement: Settlement, end: End) -> End:
        """Return the end of an iteration after the statement that ended the lease of its row.

        A row that was released counts as cancelled: it is claimed again, and only its last failure counts.
        """
        is_held = end.status == "ok" and has_changed_rows(end.outcome)
        if settlement.action == "release" and is_held:
            return End("cancelled", settlement.outcome, settlement.task, settlement.span)
        if settlement.status == "ok" and end.status == "error":
            return End("error", _statement_failure(end.outcome, "ack"), end.task, end.span)
        if settlement.status == "ok" and not is_held:
            status: Literal["error", "cancelled"] = "error" if end.status == "ok" else "cancelled"
            message = "the acknowledgement was refused: the lease has expired, and another claimer has the row"
            return End(status, error_outcome(LEASE_LOST, message), end.task, end.span)
        return End(settlement.status, settlement.outcome, settlement.task, settlement.span)

    def _row_over(self, run: Iteration, end: End, cause: Failure | None) -> None:
        progress = self._progress
        claimer = progress.claimers[run.claim_number]
        claimer.running -= 1
        if not claimer.running and not claimer.waiting:
            del progress.claimers[run.claim_number]
            progress.is_drained = False
            for other in progress.claimers.values():
                other.is_overtaken = other.is_claiming
        self._end_iteration(run, end, cause if end.status == "error" else None)

    # ---- for the engine -------------------------------------------------------------------------------------------

    def _claims(self, run_id: str) -> bool:
        run = self.state.runs.get(run_id)
        return run is not None and run.row is None and self._is_exempt(run)

    def _is_exempt(self, run: Iteration) -> bool:
        if self.state.stop is not None and self.state.stop.skips_cleanup:
            return False
        is_claiming = run.row is None and run.pipeline is not None and run.pipeline.phase == "call"
        return is_claiming or run.settlement is not None

    def _host(self, run: Iteration) -> Host:
        if run.row is None:
            step = {"step": self.input.step.name, "loop_id": self.input.loop_id}
            names = {
                FRAME_MAX_ROWS: self._progress.claimers[run.claim_number].requested,
                **lease_names(self.input, run.claim_number),
            }
            return self._statement_host(self._plans["claim"], run, names, step)
        if run.settlement is None:
            return self.host_of(run)
        plan, meta = self._plans[run.settlement.action], iteration_ids(self.input, run.index)
        return self._statement_host(plan, run, self._statement_scope(run), meta)

    def _statement_host(
        self, plan: StepPlan, run: Iteration, names: Mapping[str, Any], meta: dict[str, Any]
    ) -> StatementHost:
        return StatementHost(self.input, plan, self.state, run, self._journal, names, meta, self._outer_lease())

    def _lease_of(self, iteration: Iteration) -> LeaseRenewal | None:
        names = {"row": iteration.row, **lease_names(self.input, iteration.claim_number)}
        since = self._progress.claimers[iteration.claim_number].since
        return lease_renewal(self._cursor, self._limits, since, Chain(names, self.input.scope), self._outer_lease())

    def _statement_scope(self, run: Iteration) -> dict[str, Any]:
        names: dict[str, Any] = {"row": run.row, **lease_names(self.input, run.claim_number)}
        settlement = run.settlement
        return (
            names
            if settlement is None
            else {**names, "output": OutcomeView(settlement.kind, _iteration_outcome(settlement))}
        )

    def _returned_count(self) -> int:
        """Return the number of rows that the next chunk may claim."""
        is_over = self.state.stop is not None or self.state.failure is not None or self._progress.is_drained
        return 0 if is_over else max(0, self._limits.rows - self._progress.rows)

    def _item_count(self) -> int:
        return self.state.next_position


def _iteration_outcome(settlement: Settlement) -> PlainOutcome:
    """Return the outcome of the iteration for the templates of a statement. A successful iteration has no error, even
    if a call failed and its tasks continued.
    """
    if settlement.status != "ok" or settlement.outcome["status"] == "ok":
        return settlement.outcome
    return {**{name: value for name, value in settlement.outcome.items() if name != "error"}, "status": "ok"}


def _statement_failure(outcome: PlainOutcome, statement: str) -> PlainOutcome:
    """Return the failed outcome of a statement, with the name of the statement in its message."""
    error: Mapping[str, Any] = outcome.get("error") or {}
    return {"status": "error", "error": {**error, "message": f"{statement}: {error.get('message') or 'failed'}"}}
