"""Checks that every claimed row is logged, and settled once according to the end of its iteration (semantics.md 24).

The statements in the database (tables.py) are compared with the iterations in the log. If all attempts of a statement
failed, because its workers were lost or the database was unavailable, the state of its rows is unknown: they are
*in doubt*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from dev.simulate.leases import leases_of
from dev.simulate.run_trace import Finding, MachineTrace, RunTrace
from dev.simulate.statements import is_statement
from dev.simulate.tables import RowChange
from noetl_compiler.graph import Cursor, Loop
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.commands import CallTool, Cancel, ClaimLimits
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.facts import CancelRequested, LimitReached, ReturnRequested, ToolFinished
from noetl_temporal.machine.loops.claims import claim_limits
from noetl_temporal.machine.loops.items import max_in_flight_of

__all__ = ["check_claims"]

ENDS = {"loop.iteration.done": "ok", "loop.iteration.failed": "error", "loop.iteration.cancelled": "cancelled"}


class ClaimingLoop(NamedTuple):
    """The loop of a chunk that claims rows, or a loop inside its iterations. ``calls`` are its statements that ended,
    with their results (None for an error), ``row_changes`` those of its tokens, which begin with ``prefix``, and
    ``ends`` the ends of its iterations in the log. ``claimers`` is the limit of concurrent claimers.
    """

    trace: MachineTrace
    loop: Loop
    loop_id: str
    prefix: str
    limits: ClaimLimits
    claimers: int
    is_inside: bool
    calls: list[tuple[ToolCall, dict[str, Any] | None]]
    row_changes: list[RowChange]
    ends: dict[int, DomainEvent]

    @property
    def cursor(self) -> Cursor:
        """Return the cursor of the loop."""
        assert self.loop.cursor is not None
        return self.loop.cursor

    def has(self, token: str) -> bool:
        """Whether the token is that of a claim of this loop."""
        return token.startswith(self.prefix) and "/" not in token[len(self.prefix) :]

    @property
    def doubtful(self) -> set[int | None]:
        """Return the iterations with a statement in doubt."""
        return {call.iteration for call, result in self.calls if result is None}

    def acknowledged(self, action: str) -> set[int | None]:
        """Return the iterations whose rows were changed by this action."""
        return {
            change.iteration
            for change in self.row_changes
            if change.action == "ack" and change.rows and change.ack_status == action
        }


def check_claims(run_trace: RunTrace) -> None:
    """Raises Finding."""
    for trace in run_trace.traces.values():
        for claiming_loop in () if trace.terminated else _loops(run_trace, trace):
            for invariant in (
                _check_all_logged,
                _check_settled_once,
                _check_acknowledgements,
                _check_none_is_kept,
                _check_releases,
                _check_all_claimed,
            ):
                invariant(claiming_loop)
            _check_limits(claiming_loop)
    _check_limit_of_loop(run_trace)


def _loops(run_trace: RunTrace, trace: MachineTrace) -> Iterator[ClaimingLoop]:
    """Yield the loop of a chunk and those inside its iterations, if they claim rows."""
    if not trace.name:
        return
    chunk = trace.chunk_input
    if chunk.claims is not None:
        arguments = chunk.step.loop, chunk.loop_id, chunk.chunk_id, chunk.claims, chunk.max_in_flight, False
        yield _claiming_loop(run_trace, trace, *arguments)
    for event in trace.events:
        loop = run_trace.graph.steps[event.node].loop if event.type == "loop.started" else None
        if loop is not None and loop.cursor is not None:
            id_: str = event.meta["loop_id"]
            yield _claiming_loop(
                run_trace, trace, loop, id_, id_, claim_limits(loop, {}), max_in_flight_of(loop, {}), True
            )


def _claiming_loop(
    run_trace: RunTrace,
    trace: MachineTrace,
    loop: Loop,
    loop_id: str,
    chunk_id: str,
    limits: ClaimLimits,
    claimers: int,
    is_inside: bool,
) -> ClaimingLoop:
    claiming_loop = ClaimingLoop(
        trace, loop, loop_id, f"{trace.chunk_input.execution_id}/{chunk_id}/", limits, claimers, is_inside, [], [], {}
    )
    call_by_id = {
        command.call.id: command.call
        for turn in trace.turns
        for command in turn.commands
        if isinstance(command, CallTool)
    }
    calls: list[tuple[ToolCall, dict[str, Any] | None]] = []
    for turn in trace.turns:
        fact: Any = turn.fact
        if isinstance(fact, ToolFinished) and claiming_loop.has(_token_of(call_by_id[fact.call_id])):
            outcome: Any = fact.report.outcome
            if fact.report.stored is not None:
                outcome = {**outcome, "result": run_trace.store.load(fact.report.stored)}
            is_ok = outcome["status"] == "ok" and not fact.cancelled
            calls.append((call_by_id[fact.call_id], outcome["result"] if is_ok else None))
    row_changes = [change for change in run_trace.row_changes if claiming_loop.has(change.token)]
    ends = (event for event in trace.events if event.type in ENDS and event.meta["loop_id"] == loop_id)
    return claiming_loop._replace(
        calls=calls, row_changes=row_changes, ends={event.meta["iteration"]: event for event in ends}
    )


def _token_of(call: ToolCall) -> str:
    """Return the token of a statement, empty for any other call."""
    params: Any = call.config.get("params")
    return str(params[0 if call.task == "claim" else 1]) if is_statement(call) else ""


def _check_all_logged(claiming_loop: ClaimingLoop) -> None:
    """Check that every row that a claim returned, or the claim as a whole, becomes an iteration."""
    whole = claiming_loop.cursor.process == "frame"
    sizes = [len(result["rows"]) for call, result in claiming_loop.calls if call.task == "claim" and result is not None]
    rows = sum(min(1, size) if whole else size for size in sizes)
    if rows != len(claiming_loop.ends) and not _skips_cleanup(claiming_loop.trace):
        raise Finding("a claimed row is not logged", f"{rows} rows, {len(claiming_loop.ends)} iterations")


def _check_settled_once(claiming_loop: ClaimingLoop) -> None:
    changes = Counter(
        change.iteration for change in claiming_loop.row_changes if change.action in ("ack", "release") and change.rows
    )
    repeated = [index for index, count in changes.items() if count > 1]
    if repeated:
        raise Finding("a row is settled twice", f"by iteration {repeated[0]} of {claiming_loop.trace.name}")
    settlements = Counter(
        call.iteration for call, result in claiming_loop.calls if call.task != "claim" and result is not None
    )
    reported_again = [index for index, count in settlements.items() if count > 1]
    if reported_again:
        raise Finding(
            "a row is settled again after that was reported",
            f"iteration {reported_again[0]} of {claiming_loop.trace.name}",
        )


def _check_acknowledgements(claiming_loop: ClaimingLoop) -> None:
    """Check that a row is acknowledged as done if and only if its iteration succeeded."""
    if claiming_loop.cursor.ack is None:
        return
    done = {index for index, end in claiming_loop.ends.items() if ENDS[end.type] == "ok"}
    acknowledged = claiming_loop.acknowledged("ok")
    if done - acknowledged:
        raise Finding("a row that is not acknowledged counts as done", f"iterations {sorted(done - acknowledged)}")
    if acknowledged - done - claiming_loop.doubtful:
        detail = f"iterations {acknowledged - done} of {claiming_loop.trace.name}"
        raise Finding("a row that is acknowledged counts as not done", detail)
    failed = {index for index, end in claiming_loop.ends.items() if ENDS[end.type] == "error"}
    if claiming_loop.acknowledged("error") - failed - claiming_loop.doubtful:
        raise Finding("a row is acknowledged as failed that is not", str(claiming_loop.acknowledged("error") - failed))


def _check_none_is_kept(claiming_loop: ClaimingLoop) -> None:
    """Check that claimed rows are settled, unless another claimer has them or they cannot be settled."""
    if _skips_cleanup(claiming_loop.trace):
        return
    settled: set[tuple[str, int]] = set()
    for call, result in claiming_loop.calls:
        if call.task != "claim" and result is not None:
            params: Any = call.config["params"]
            rows = params[0] if isinstance(params[0], list) else [params[0]]
            settled |= {(params[1], row["id"]) for row in rows}
    for call, result in claiming_loop.calls:
        if call.task == "claim" and result is not None:
            token: str = call.config["params"][0]
            for row in result["rows"]:
                if (token, row["id"]) not in settled and not _may_be_kept(claiming_loop):
                    raise Finding("a row stays claimed", f"row {row['id']} of {token}")


def _may_be_kept(claiming_loop: ClaimingLoop) -> bool:
    """Whether a row of the chunk had no settling statement, one in doubt, or a lost lease."""
    has_lost_lease = any("lease" in str(end.error) for end in claiming_loop.ends.values())
    return (
        claiming_loop.cursor.ack is None
        or claiming_loop.cursor.release is None
        or bool(claiming_loop.doubtful)
        or has_lost_lease
    )


def _skips_cleanup(trace: MachineTrace) -> bool:
    return sum(isinstance(turn.fact, CancelRequested) for turn in trace.turns) > 1


def _check_releases(claiming_loop: ClaimingLoop) -> None:
    """Check that a row whose iteration failed is released as often as allowed, and not more often."""
    claims_by_row = {
        (change.token, row): count
        for change in claiming_loop.row_changes
        if change.action == "claim"
        for row, count in zip(change.rows, change.attempts, strict=True)
    }
    max_attempts = claiming_loop.limits.max_attempts
    releases = claiming_loop.cursor.on_row_error == "release"
    is_told = releases and claiming_loop.cursor.process == "row"
    for change in claiming_loop.row_changes:
        counts = [claims_by_row[change.token, row] for row in change.rows]
        if change.action == "ack" and change.ack_status == "error" and is_told and counts and counts[0] < max_attempts:
            raise Finding("a failed row is not given back", f"{change}, claimed {counts[0]} of {max_attempts} times")
        if (
            change.action == "release"
            and not _is_stopped(claiming_loop)
            and counts
            and (not releases or counts[0] >= max_attempts)
        ):
            raise Finding("a row is given back too often", f"{change}, claimed {counts[0]} of {max_attempts} times")


def _is_stopped(claiming_loop: ClaimingLoop) -> bool:
    loop, trace = claiming_loop.loop, claiming_loop.trace
    has_failed = any(end.type == "loop.iteration.failed" for end in claiming_loop.ends.values())
    is_stopped = any(isinstance(turn.fact, CancelRequested | LimitReached) for turn in trace.turns)
    return (
        is_stopped
        or (loop.on_error == "fail_fast" and has_failed)
        or (claiming_loop.is_inside and _is_stopped_from_outside(claiming_loop))
    )


def _is_stopped_from_outside(claiming_loop: ClaimingLoop) -> bool:
    """Whether a loop inside an iteration was stopped with it, or by its timeout."""
    ends = ("loop.done", "loop.failed")
    loop_ends = [
        event
        for event in claiming_loop.trace.events
        if event.type in ends and event.meta["loop_id"] == claiming_loop.loop_id
    ]
    return not loop_ends or "timed out" in str(loop_ends[0].error)


def _check_all_claimed(claiming_loop: ClaimingLoop) -> None:
    """Check that the last claim, after the last release, found no row, or that the limit of rows was reached."""
    trace = claiming_loop.trace
    ended_early = _is_stopped(claiming_loop) or any(isinstance(turn.fact, ReturnRequested) for turn in trace.turns)
    if ended_early or trace.report is None or (trace.report.failure is not None and not claiming_loop.is_inside):
        return
    if any(call.task == "claim" and result is None for call, result in claiming_loop.calls):
        return
    claims = [(call, result) for call, result in claiming_loop.calls if call.task == "claim" and result is not None]
    claimed_count = sum(len(result["rows"]) for _, result in claims)
    if claimed_count == claiming_loop.limits.rows:
        return
    changes = [change for change in claiming_loop.row_changes if change.action in ("claim", "release")]
    if not claims or claims[-1][1]["rows"] or (changes and changes[-1].action == "release" and changes[-1].rows):
        raise Finding("a cursor is left before it is empty", f"{claimed_count} rows, the last changes {changes[-2:]}")


# ---- bounds ----------------------------------------------------------------------------------------------------------


def _check_limits(claiming_loop: ClaimingLoop) -> None:
    """Check max_rows of a claim, max_in_flight claimers, and row_concurrency concurrent rows of a claim."""
    limits, claimers = claiming_loop.limits, claiming_loop.claimers
    for call, result in claiming_loop.calls:
        if call.task == "claim" and result is not None and len(result["rows"]) > limits.max_rows:
            raise Finding("a claim takes more than max_rows", f"{len(result['rows'])} of {limits.max_rows}")
    for tokens, claiming in _running(claiming_loop):
        rows = set(tokens.values())
        at_work = {token for token, _ in rows} | claiming
        if len(at_work) > claimers:
            raise Finding("more claimers than max_in_flight", f"{at_work} of {claimers}")
        busiest = Counter(token for token, _ in rows).most_common(1)
        if busiest and busiest[0][1] > limits.row_concurrency:
            raise Finding("more rows of a claim at once than row_concurrency", str(busiest[0]))


def _running(claiming_loop: ClaimingLoop) -> Iterator[tuple[dict[str, tuple[str, str]], set[str]]]:
    """After each turn: the calls that run under a lease, with its token and its row, and the tokens of claims that run.
    Several calls may work on one row, in branches of a region.
    """
    tokens: dict[str, tuple[str, str]] = {}
    claiming: dict[str, str] = {}
    for turn in claiming_loop.trace.turns:
        fact: Any = turn.fact
        if isinstance(fact, ToolFinished):
            tokens.pop(fact.call_id, None)
            claiming.pop(fact.call_id, None)
        for command in turn.commands:
            if isinstance(command, Cancel):
                tokens.pop(command.id, None)
            if not isinstance(command, CallTool):
                continue
            call: Any = command.call
            if call.task == "claim" and claiming_loop.has(_token_of(call)):
                claiming[call.id] = _token_of(call)
            for lease in leases_of(call):
                row, token, *_ = cast("list[Any]", lease.config["params"])
                tokens |= {call.id: (token, str(row))} if claiming_loop.has(token) else {}
        yield tokens, set(claiming.values())


def _check_limit_of_loop(run_trace: RunTrace) -> None:
    """Check that all chunks of a loop together claim at most ``limit`` rows."""
    claimed_count: Counter[str] = Counter()
    limits: dict[str, int] = {}
    for trace in run_trace.traces.values():
        for claiming_loop in _loops(run_trace, trace):
            limits.setdefault(claiming_loop.loop_id, claiming_loop.limits.rows)
            claimed_count[claiming_loop.loop_id] += sum(
                len(result["rows"]) for _, result in claiming_loop.calls if result
            )
    for loop, count in claimed_count.items():
        if count > limits[loop]:
            raise Finding("a loop claims more rows than its limit", f"{count} of {limits[loop]}, by {loop[:80]}")
