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
from noetl_temporal.machine.loops.items import in_flight

__all__ = ["check_claims"]

ENDS = {"loop.iteration.done": "ok", "loop.iteration.failed": "error", "loop.iteration.cancelled": "cancelled"}


class Claimed(NamedTuple):
    """Of one chunk that claims rows, or of a loop inside the iterations of one: its statements that ended, with what
    they returned (None for an error), the row_changes of its tokens, which begin with ``prefix``, and the ends of its
    iterations in the log. ``claimers`` is how many it may have at once.
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
        """That of the loop."""
        assert self.loop.cursor is not None
        return self.loop.cursor

    def has(self, token: str) -> bool:
        """Whether a token belongs to a claim of this loop."""
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
        for claimed in () if trace.terminated else _loops(run_trace, trace):
            for invariant in (
                _check_all_logged,
                _check_settled_once,
                _check_acknowledgements,
                _check_none_is_kept,
                _check_releases,
                _check_all_claimed,
            ):
                invariant(claimed)
            _check_limits(claimed)
    _check_limit_of_loop(run_trace)


def _loops(run_trace: RunTrace, trace: MachineTrace) -> Iterator[Claimed]:
    """Yield the loop of a chunk and those inside its iterations, if they claim rows."""
    if not trace.name:
        return
    given = trace.given
    if given.claims is not None:
        place = given.step.loop, given.loop_id, given.chunk_id, given.claims, given.max_in_flight, False
        yield _claimed(run_trace, trace, *place)
    for event in trace.events:
        loop = run_trace.graph.steps[event.node].loop if event.type == "loop.started" else None
        if loop is not None and loop.cursor is not None:
            id_: str = event.meta["loop_id"]
            yield _claimed(run_trace, trace, loop, id_, id_, claim_limits(loop, {}), in_flight(loop, {}), True)


def _claimed(
    run_trace: RunTrace,
    trace: MachineTrace,
    loop: Loop,
    loop_id: str,
    chunk_id: str,
    limits: ClaimLimits,
    claimers: int,
    is_inside: bool,
) -> Claimed:
    claimed = Claimed(
        trace, loop, loop_id, f"{trace.given.execution_id}/{chunk_id}/", limits, claimers, is_inside, [], [], {}
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
        if isinstance(fact, ToolFinished) and claimed.has(_token_of(call_by_id[fact.call_id])):
            outcome: Any = fact.report.outcome
            if fact.report.stored is not None:
                outcome = {**outcome, "result": run_trace.store.load(fact.report.stored)}
            is_ok = outcome["status"] == "ok" and not fact.cancelled
            calls.append((call_by_id[fact.call_id], outcome["result"] if is_ok else None))
    row_changes = [change for change in run_trace.row_changes if claimed.has(change.token)]
    own = (event for event in trace.events if event.type in ENDS and event.meta["loop_id"] == loop_id)
    return claimed._replace(
        calls=calls, row_changes=row_changes, ends={event.meta["iteration"]: event for event in own}
    )


def _token_of(call: ToolCall) -> str:
    """Return the token of a statement, empty for any other call."""
    given: Any = call.config.get("params")
    return str(given[0 if call.task == "claim" else 1]) if is_statement(call) else ""


def _check_all_logged(claimed: Claimed) -> None:
    """Check that every row that a claim returned, or the claim as a whole, becomes an iteration."""
    whole = claimed.cursor.process == "frame"
    sizes = [len(result["rows"]) for call, result in claimed.calls if call.task == "claim" and result is not None]
    rows = sum(min(1, size) if whole else size for size in sizes)
    if rows != len(claimed.ends) and not _skips_cleanup(claimed.trace):
        raise Finding("a claimed row is not logged", f"{rows} rows, {len(claimed.ends)} iterations")


def _check_settled_once(claimed: Claimed) -> None:
    changed = Counter(
        change.iteration for change in claimed.row_changes if change.action in ("ack", "release") and change.rows
    )
    twice = [index for index, count in changed.items() if count > 1]
    if twice:
        raise Finding("a row is settled twice", f"by iteration {twice[0]} of {claimed.trace.name}")
    settlements = Counter(
        call.iteration for call, result in claimed.calls if call.task != "claim" and result is not None
    )
    again = [index for index, count in settlements.items() if count > 1]
    if again:
        raise Finding("a row is settled again after that was reported", f"iteration {again[0]} of {claimed.trace.name}")


def _check_acknowledgements(claimed: Claimed) -> None:
    """Check that a row is acknowledged as done if and only if its iteration succeeded."""
    if claimed.cursor.ack is None:
        return
    done = {index for index, end in claimed.ends.items() if ENDS[end.type] == "ok"}
    acknowledged = claimed.acknowledged("ok")
    if done - acknowledged:
        raise Finding("a row that is not acknowledged counts as done", f"iterations {sorted(done - acknowledged)}")
    if acknowledged - done - claimed.doubtful:
        detail = f"iterations {acknowledged - done} of {claimed.trace.name}"
        raise Finding("a row that is acknowledged counts as not done", detail)
    failed = {index for index, end in claimed.ends.items() if ENDS[end.type] == "error"}
    if claimed.acknowledged("error") - failed - claimed.doubtful:
        raise Finding("a row is acknowledged as failed that is not", str(claimed.acknowledged("error") - failed))


def _check_none_is_kept(claimed: Claimed) -> None:
    """Check that claimed rows are settled, unless another claimer has them or they cannot be settled."""
    if _skips_cleanup(claimed.trace):
        return
    reached: set[tuple[str, int]] = set()
    for call, result in claimed.calls:
        if call.task != "claim" and result is not None:
            given: Any = call.config["params"]
            rows = given[0] if isinstance(given[0], list) else [given[0]]
            reached |= {(given[1], row["id"]) for row in rows}
    for call, result in claimed.calls:
        if call.task == "claim" and result is not None:
            token: str = call.config["params"][0]
            for row in result["rows"]:
                if (token, row["id"]) not in reached and not _may_be_kept(claimed):
                    raise Finding("a row stays claimed", f"row {row['id']} of {token}")


def _may_be_kept(claimed: Claimed) -> bool:
    """Whether a row of the chunk had no settling statement, one in doubt, or a lost lease."""
    lost = any("lease" in str(end.error) for end in claimed.ends.values())
    return claimed.cursor.ack is None or claimed.cursor.release is None or bool(claimed.doubtful) or lost


def _skips_cleanup(trace: MachineTrace) -> bool:
    return sum(isinstance(turn.fact, CancelRequested) for turn in trace.turns) > 1


def _check_releases(claimed_rows: Claimed) -> None:
    """Check that a row whose iteration failed is released as often as allowed, and not more often."""
    claimed = {
        (change.token, row): count
        for change in claimed_rows.row_changes
        if change.action == "claim"
        for row, count in zip(change.rows, change.attempts, strict=True)
    }
    most = claimed_rows.limits.max_attempts
    releases = claimed_rows.cursor.on_row_error == "release"
    is_told = releases and claimed_rows.cursor.process == "row"
    for change in claimed_rows.row_changes:
        counts = [claimed[change.token, row] for row in change.rows]
        if change.action == "ack" and change.ack_status == "error" and is_told and counts and counts[0] < most:
            raise Finding("a failed row is not given back", f"{change}, claimed {counts[0]} of {most} times")
        if (
            change.action == "release"
            and not _is_stopped(claimed_rows)
            and counts
            and (not releases or counts[0] >= most)
        ):
            raise Finding("a row is given back too often", f"{change}, claimed {counts[0]} of {most} times")


def _is_stopped(claimed: Claimed) -> bool:
    loop, trace = claimed.loop, claimed.trace
    failed = any(end.type == "loop.iteration.failed" for end in claimed.ends.values())
    is_stopped = any(isinstance(turn.fact, CancelRequested | LimitReached) for turn in trace.turns)
    return (
        is_stopped
        or (loop.on_error == "fail_fast" and failed)
        or (claimed.is_inside and _is_stopped_from_outside(claimed))
    )


def _is_stopped_from_outside(claimed: Claimed) -> bool:
    """Whether a loop inside an iteration was stopped with it, or by its timeout."""
    ends = ("loop.done", "loop.failed")
    own = [event for event in claimed.trace.events if event.type in ends and event.meta["loop_id"] == claimed.loop_id]
    return not own or "timed out" in str(own[0].error)


def _check_all_claimed(claimed: Claimed) -> None:
    """Check that the last claim, after the last release, found no row, or that the limit of rows was reached."""
    trace = claimed.trace
    ended_early = _is_stopped(claimed) or any(isinstance(turn.fact, ReturnRequested) for turn in trace.turns)
    if ended_early or trace.report is None or (trace.report.failure is not None and not claimed.is_inside):
        return
    if any(call.task == "claim" and result is None for call, result in claimed.calls):
        return
    claims = [(call, result) for call, result in claimed.calls if call.task == "claim" and result is not None]
    claimed_count = sum(len(result["rows"]) for _, result in claims)
    if claimed_count == claimed.limits.rows:
        return
    own = [change for change in claimed.row_changes if change.action in ("claim", "release")]
    if not claims or claims[-1][1]["rows"] or (own and own[-1].action == "release" and own[-1].rows):
        raise Finding("a cursor is left before it is empty", f"{claimed_count} rows, the last changes {own[-2:]}")


# ---- bounds ----------------------------------------------------------------------------------------------------------


def _check_limits(claimed: Claimed) -> None:
    """Check max_rows of a claim, max_in_flight claimers, and row_concurrency concurrent rows of a claim."""
    limits, claimers = claimed.limits, claimed.claimers
    for call, result in claimed.calls:
        if call.task == "claim" and result is not None and len(result["rows"]) > limits.max_rows:
            raise Finding("a claim takes more than max_rows", f"{len(result['rows'])} of {limits.max_rows}")
    for tokens, claiming in _running(claimed):
        rows = set(tokens.values())
        at_work = {token for token, _ in rows} | claiming
        if len(at_work) > claimers:
            raise Finding("more claimers than max_in_flight", f"{at_work} of {claimers}")
        most = Counter(token for token, _ in rows).most_common(1)
        if most and most[0][1] > limits.row_concurrency:
            raise Finding("more rows of a claim at once than row_concurrency", str(most[0]))


def _running(claimed: Claimed) -> Iterator[tuple[dict[str, tuple[str, str]], set[str]]]:
    """After each turn: the calls that run under a lease, with its token and its row, and the tokens of claims that run.
    Several calls may work on one row, in branches of a region.
    """
    tokens: dict[str, tuple[str, str]] = {}
    claiming: dict[str, str] = {}
    for turn in claimed.trace.turns:
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
            if call.task == "claim" and claimed.has(_token_of(call)):
                claiming[call.id] = _token_of(call)
            for lease in leases_of(call):
                row, token, *_ = cast("list[Any]", lease.config["params"])
                tokens |= {call.id: (token, str(row))} if claimed.has(token) else {}
        yield tokens, set(claiming.values())


def _check_limit_of_loop(run_trace: RunTrace) -> None:
    """Check that all chunks of a loop together claim at most ``limit`` rows."""
    claimed_count: Counter[str] = Counter()
    limits: dict[str, int] = {}
    for trace in run_trace.traces.values():
        for claimed in _loops(run_trace, trace):
            limits.setdefault(claimed.loop_id, claimed.limits.rows)
            claimed_count[claimed.loop_id] += sum(len(result["rows"]) for _, result in claimed.calls if result)
    for loop, count in claimed_count.items():
        if count > limits[loop]:
            raise Finding("a loop claims more rows than its limit", f"{count} of {limits[loop]}, by {loop[:80]}")
