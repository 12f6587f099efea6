"""The one place where a tool becomes an activity.

How it works. An activity execution is one tool call with all its attempts. Each attempt:

    place ──► ledger ──► tool ──► sinks ──► rules ──► the report is stored, and returned
                │ has the outcome    ▲          └──► retry: an ApplicationError with the delay, so Temporal itself waits
                └────────────────────┘

A place is one of the tool's concurrent calls in this process (tool_places.py); the timeout of the call starts there.

Attempts leave no events in history, so each one's record goes with the heartbeats to the next (attempt_log.py) and the
report has them all.

If an attempt is interrupted before the tool has returned, it ends immediately; afterwards it completes its sinks and
reports (interruptions.py). An attempt after an interrupted one first checks for a cancel that is in transit
(late_cancel.py).
A report that is too large for history is stored by the activity, with retries (value_store.py), so an unavailable
payload store never makes the tool run twice.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from noetl_activities import sinks
from noetl_activities.call_summary import call_summary
from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.once import LedgerSlot, OnceResult, stores_outcomes
from noetl_activities.outcome import Outcome
from noetl_activities.sinks import Sinks
from noetl_activities.tool import Credential, Json, OutputStream, Request, Tool
from noetl_compiler import templates
from noetl_temporal.attempt_end import AttemptEnd, handed_on, interrupted
from noetl_temporal.attempt_log import AttemptLog
from noetl_temporal.call_log import CallLog
from noetl_temporal.call_sinks import CallSinks
from noetl_temporal.codec import UnreadValue
from noetl_temporal.encryption_codec import Locked
from noetl_temporal.interruptions import finished, not_paused
from noetl_temporal.late_cancel import until_passed_on
from noetl_temporal.leases import held
from noetl_temporal.machine.call import PlainOutcome, ToolCall, ToolReport
from noetl_temporal.machine.scope import Chain, call_names
from noetl_temporal.naming import activity_type
from noetl_temporal.stored_values import with_result_loaded
from noetl_temporal.task_output import TaskOutput
from noetl_temporal.tool_outcome import (
    Deadline,
    attempted,
    fitted,
    is_large,
    ledger_json,
    plain,
    refusal,
    without_secrets,
)
from noetl_temporal.tool_places import place_for
from noetl_temporal.tracing import attempt_span
from noetl_temporal.value_store import ValueStore, until_done

__all__ = ["MAX_LOST", "Attempt", "tool_activity"]

MAX_LOST = 5
"""Attempts that may be lost with their worker. One more fails the call, because it may be what kills the workers."""

PLACES = 5
"""The number of innermost code locations logged for an internal error."""

_log = logging.getLogger(__name__)


def tool_activity(
    tool: Tool, source: CredentialSource, values: ValueStore, client: Client | None = None
) -> Callable[..., Any]:
    """The activity of a tool: ``noetl.<kind>``. ``values`` stores large results; with ``client`` an attempt
    checks whether a cancel is in transit.
    """

    @activity.defn(name=activity_type(tool.spec.kind))
    async def run(call: ToolCall) -> ToolReport:
        log = AttemptLog(values)
        is_called = asyncio.Event()
        with log.beating():
            try:
                values_read = await _read(call, values, log)
                if isinstance(values_read, str):
                    return ToolReport(refusal("internal", values_read))
                credentials = Credentials(source, values_read.secrets_key)
                attempt = Attempt(tool, values_read, credentials, log, values, is_called, client)
                return await (attempt.run() if values_read.idempotent else not_paused(attempt.run(), is_called))
            except asyncio.CancelledError:
                return await interrupted(log, is_called.is_set())

    return run


async def _read(call: ToolCall | UnreadValue | Locked, values: ValueStore, log: CallLog) -> ToolCall | str:
    """The call, read from the payload store, however long that takes; a message when the store no longer has it. Raises
    ApplicationError for one that is encrypted with a key that this worker does not have.
    """
    if isinstance(call, ToolCall):
        return call
    if isinstance(call, Locked):
        await handed_on(log, call)
    try:
        return await until_done("the call cannot be read", lambda: values.read(call, ToolCall))
    except LookupError as error:
        return str(error)


class _Context:
    """Implements noetl_activities.tool.ToolContext for one attempt."""

    def __init__(self, log: CallLog, credentials: Credentials, output: TaskOutput) -> None:
        self._log = log
        self._credentials = credentials
        self._output = output

    @property
    def attempt(self) -> int:
        return self._log.number

    def heartbeat(self) -> None:
        self._log.beat()

    async def credential(self, auth: Json) -> Credential:
        return await self._credentials.resolve(auth)

    async def secret(self, name: str, kind: str, config: dict[str, Json]) -> str:
        return await self._credentials.reference(name, kind, config)

    def truncate(self, text: str, limit: int) -> str:
        return self._credentials.truncate(text, limit)

    def output(self, stream: OutputStream, text: str) -> None:
        self._output.feed(stream, text)


class _Answer(NamedTuple):
    """The outcome that sinks and rules work on.

    ``is_taken``: it comes from the ledger. ``is_in_ledger``: it is there now. ``is_refused``: the call was not made
    because of earlier attempts, so another attempt would be refused too.
    """

    outcome: PlainOutcome
    is_taken: bool = False
    is_in_ledger: bool = False
    is_refused: bool = False


@dataclass
class Attempt:
    """One attempt of a call, in an activity of its own or in a frame. ``performer`` performs its sinks."""

    tool: Tool
    call: ToolCall
    credentials: Credentials
    log: CallLog
    values: ValueStore
    is_called: asyncio.Event
    client: Client | None = None
    performer: Sinks = sinks

    def __post_init__(self) -> None:
        call = self.call
        self._limit = self.tool.spec.timeout if call.timeout is None else call.timeout
        self._output = TaskOutput(call, self.log, self.credentials, self.values.dsn)
        self._context = _Context(self.log, self.credentials, self._output)
        self._deadline = Deadline(self._limit)
        self._sinks = CallSinks(
            call, self.log, self.performer, self.credentials, self._context, self._deadline, self.values.limit
        )
        self._end = AttemptEnd(call, self.log, self.values, self._scope)

    async def run(self) -> ToolReport:
        """The report that ends the call, or the error that asks Temporal for the next attempt.

        A bug ends the call as well: Temporal would repeat it endlessly. Its message may contain a secret.
        """
        try:
            with attempt_span(self.call, self.log):
                return await self._run()
        except ApplicationError:
            raise
        except Exception as error:
            name, place = type(error).__name__, "".join(traceback.format_tb(error.__traceback__, limit=-PLACES))
            _log.error("%s: %s where the call was handled\n%s", self.call.id, name, place)
            return self._broken(f"{name} where the call was handled: the worker's log has the place")

    async def _run(self) -> ToolReport:
        async with nullcontext() if self.call.store is not None else place_for(self.tool.spec):
            self._deadline.begin()
            answer = await self._answer()
        work = self._finish(answer)
        return await (finished(asyncio.create_task(work)) if self._may_wait(answer) else work)

    def _may_wait(self, answer: _Answer) -> bool:
        """Whether the end of the attempt may wait for something: most do not, and a task costs as much as the call."""
        return bool(self.call.sinks) or self.log.number > 1 or is_large(answer.outcome)

    def _broken(self, message: str) -> ToolReport:
        outcome = refusal("internal", message)
        self.log.end(status="error", error=outcome["error"], is_called=self.is_called.is_set())
        return ToolReport(outcome, attempts=self.log.latest, counts=self.log.counts, is_decided=False)

    # ---- the call -------------------------------------------------------------------------------------------------

    async def _answer(self) -> _Answer:
        if self.call.store is not None:
            return await self._to_store(self.call.store)
        stored = await self._sinks.stored_outcome()
        if stored.outcome is not None:
            return _Answer(stored.outcome, is_taken=True, is_in_ledger=True)
        if stored.failure is not None:
            return _Answer(stored.failure)
        refused = self._refused()
        if refused is not None:
            return await self._found() or _Answer(refused, is_refused=True)
        if self.client is not None and self.log.follows_a_cut:
            info = activity.info()
            await until_passed_on(self.client, info.workflow_id or "", info.activity_id)
        if not self.call.idempotent:
            self.log.record_attempt()
        self.is_called.set()
        async with self._output:
            answer, failure = await attempted(self._run_with_lease, self._deadline, self._summary)
        return answer or _Answer(failure or {})

    def _summary(self) -> str:
        return call_summary(self.call.kind, self.call.config)

    async def _to_store(self, outcome: PlainOutcome) -> _Answer:
        try:
            loaded = await until_done("the result cannot be read", lambda: with_result_loaded(outcome, self.values))
        except LookupError as error:
            return _Answer(refusal("internal", str(error)))
        return _Answer(loaded)

    async def _run_with_lease(self) -> _Answer:
        return await held(self.call.lease, self.log.now(), self.credentials, self._context, self._run_tool)

    async def _run_tool(self) -> _Answer:
        if not stores_outcomes(self.tool):
            return _Answer(plain(await self.tool.run(await self._request(), self._context)))
        return self._adopt(await self.tool.run_once(await self._request(), self._context, self._once()))

    async def _found(self) -> _Answer | None:
        """What the tool itself has kept of a call that is not made again."""
        tool = self.tool
        if not stores_outcomes(tool):
            return None

        async def find() -> OnceResult | None:
            return await tool.find(await self._request(), self._context, self._once())

        outcome, failure = await attempted(find, self._deadline)
        if failure is not None:
            return _Answer(failure)
        return None if outcome is None else self._adopt(outcome)

    def _adopt(self, answer: OnceResult) -> _Answer:
        """Use an outcome that the tool has found or made, and record the attempts that it counts."""
        self.log.add_unrecorded_attempts(answer.used)
        return _Answer(plain(answer.outcome), answer.is_reused, answer.is_in_ledger)

    def _once(self) -> LedgerSlot:
        return LedgerSlot(self.call.key, self.log.n, self._noted)

    def _noted(self, outcome: Outcome) -> str:
        return ledger_json(plain(outcome), self.credentials, self.values.limit, self.log.used)

    def _refused(self) -> PlainOutcome | None:
        """An outcome instead of another attempt, when an earlier one vanished and must not be repeated."""
        lost = self.log.earlier.lost
        if self.log.is_in_doubt and not self.call.idempotent:
            message = "an attempt ended before its tool returned: it is unknown whether the call took effect"
            return refusal("unknown_outcome", message)
        if lost > MAX_LOST:
            return refusal("worker_lost", f"{lost} workers were lost while running this call")
        return None

    async def _request(self) -> Request:
        """What the tool is called with: from here on references to secrets are replaced by their values."""
        call = self.call
        return Request(
            kind=call.kind,
            config=await self.credentials.with_secrets(call.config, call.kind),
            input=await self.credentials.with_secrets(call.input),
            auth=call.auth,
            timeout=self._limit,
            connect_timeout=call.connect_timeout,
            read_timeout=call.read_timeout,
            key=call.key,
            n=self.log.n,
            idempotency_key=call.idempotency_key,
            execution_id=str(call.execution_id),
        )

    # ---- after the call -------------------------------------------------------------------------------------------

    async def _finish(self, answer: _Answer) -> ToolReport:
        outcome = without_secrets(answer.outcome, self.credentials)
        performed = await self._sinks.perform(outcome, self._scope, answer.is_in_ledger)
        outcome = fitted(without_secrets(performed.outcome, self.credentials), self.values.limit)
        return await self._end.concluded(
            outcome,
            may_retry=not answer.is_refused,
            sinks=performed.records,
            is_called=self.is_called.is_set() and not answer.is_taken,
            is_taken=answer.is_taken,
        )

    def _scope(self, outcome: PlainOutcome) -> Mapping[str, Any]:
        """What rules and sinks see; the outcome of a call that only stores is seen as a collected one."""
        call = self.call
        kind = call.kind if call.store is None else "collected"
        names = call_names(call.names, call.step, kind, outcome, self.log.used, call.page or 1, lambda: call.scope)
        clock = {"now": templates.Clock(self.log.now())}
        return Chain(clock, call.scope, names) if call.aside else Chain(names, clock, call.scope)
