"""The world of a test in memory: calls return their stubs, sinks store rows in memory, and time is virtual."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
from msgspec.structs import replace
from temporalio.converter import DataConverter

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.errors import SinkError
from noetl_activities.http.exchange import HttpResponse
from noetl_activities.http.tool import outcome_of
from noetl_activities.noop import NoopTool
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.rows import sql_result, statement_result
from noetl_activities.sinks import OutcomeLookup, SinkRequest, StoreResult
from noetl_activities.sinks.data import sink_rows
from noetl_activities.tool import Json, Request, ToolContext
from noetl_activities.tool_spec import ToolSpec
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.playbook_tests import CallSelector, Stub, StubError, StubResponse
from noetl_temporal.calls.call_log import CallLog
from noetl_temporal.calls.run_tool import Attempt
from noetl_temporal.calls.tool_outcome import plain_outcome
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.machine.control import RefusedError
from noetl_temporal.machine.facts import Fact
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.payloads.value_store import ValueStore
from noetl_temporal.playbook_tests.host import TrialRun
from noetl_temporal.playbook_tests.requests import DueRequest, Requests, Situation, fact_of, situation_of
from noetl_temporal.playbook_tests.virtual_time import VirtualTimeLoop

__all__ = ["NoStubError", "StubbedWorld", "is_call_of"]

START_MS = EPOCH_MS + 366 * 86_400_000
"""The time at which every test begins: the start of 2025 in UTC, in milliseconds since the epoch."""

_NOOP = NoopTool.spec.kind


class NoStubError(Exception):
    """A call for which the test has no stub."""

    def __init__(self, call: ToolCall, attempt: int) -> None:
        super().__init__(f"no stub for {call.step}, task {call.task}, attempt {attempt}")
        self.call = call
        self.attempt = attempt


def is_call_of(calls: CallSelector, call: ToolCall) -> bool:
    """Whether the call is one of ``calls``."""
    return (
        calls.step.text == call.step
        and (calls.task is None or calls.task.text == call.task)
        and calls.iteration in (None, call.iteration)
        and calls.page in (None, call.page or 1)
    )


@dataclass
class StubbedWorld:
    """Implements host.World with the stubs of a test and a virtual clock.

    ``use_counts`` has the number of attempts for which each stub was used, ``stored`` the rows of sinks by table.
    ``last_situation`` is that of the run when it was last idle.
    """

    stubs: tuple[Stub, ...]
    tools: Tools
    requests: Requests
    use_counts: list[int] = field(default_factory=list[int])
    stored: dict[str, list[Json]] = field(default_factory=dict[str, "list[Json]"])
    last_situation: Situation | None = None

    def __post_init__(self) -> None:
        self.use_counts = [0] * len(self.stubs)
        self._source = CredentialSource(environment={})
        self._values = ValueStore(DataConverter.default)

    def now(self) -> int:
        """See host.World."""
        return START_MS + round(asyncio.get_running_loop().time() * 1000)

    async def wait(self, seconds: float, *, is_timeout: bool) -> None:
        """See host.World."""
        del is_timeout
        await asyncio.sleep(seconds)

    def playbook(self, call: ToolCall) -> ToolReport:
        """See host.World. Raises NoStubError."""
        stub = self.choose_stub(call, 1)
        outcome = _error_outcome(stub.error) if stub and stub.error else Outcome("ok", stub.result if stub else None)
        return ToolReport(plain_outcome(outcome), is_decided=False)

    def start_requests(self, machine: PlaybookMachine, run: TrialRun, receive: Callable[[Fact], None]) -> None:
        """See host.World."""
        loop = cast("VirtualTimeLoop", asyncio.get_running_loop())
        for due in self.requests.initial_requests():
            if fact := self._fact_unless_refused(due, machine):
                receive(fact)
        for seconds in self.requests.due_times():
            loop.call_later(seconds, lambda: None)
        loop.idle = lambda: self._send_due_request(machine, run, receive)

    def _send_due_request(self, machine: PlaybookMachine, run: TrialRun, receive: Callable[[Fact], None]) -> bool:
        """Send the next request that is due. Called when the run is idle. Returns whether there was such a request."""
        is_busy = any(call.report is None for call in run.calls)
        started = (event.node for event in run.events if event.type == "step.started")
        seconds = asyncio.get_running_loop().time()
        self.last_situation = situation_of(machine, started, is_busy=is_busy, seconds=seconds)
        due = self.requests.next_due(self.last_situation)
        if due is not None:
            fact = self._fact_unless_refused(due, machine)
            if fact is not None:
                receive(fact)
            self.requests.release_calls()
            return True
        return False

    def _fact_unless_refused(self, due: DueRequest, machine: PlaybookMachine) -> Fact | None:
        """Return the fact of a request; None if the run refuses it."""
        try:
            return fact_of(due, machine, self.now())
        except RefusedError as error:
            self.requests.add_refusal(due.request, str(error))
            return None

    def attempt(self, call: ToolCall, log: CallLog) -> Attempt:
        """See host.World. Raises NoStubError."""
        return self.attempt_with(self.choose_stub(call, log.attempt_number), call, log)

    def attempt_with(self, stub: Stub | None, call: ToolCall, log: CallLog) -> Attempt:
        """Return the attempt whose tool returns the stub."""
        sinks = _Sinks(self.stored, stub.sink_error if stub else None)
        tool = StubTool(call, stub, self.tools[call.kind].timeout, self.requests)
        credentials = Credentials(self._source)
        call = replace(call, lease=None)  # stubs claim no rows
        return Attempt(tool, call, credentials, log, self._values, asyncio.Event(), sink_writer=sinks)

    def choose_stub(self, call: ToolCall, attempt: int) -> Stub | None:
        """Return the stub for the attempt; None for a call that only stores, or does nothing and has no stub. Raises
        NoStubError.
        """
        if call.outcome_to_store is not None:
            return None
        for index, stub in enumerate(self.stubs):
            is_spent = stub.times is not None and self.use_counts[index] >= stub.times
            if not is_spent and stub.attempt in (None, attempt) and is_call_of(stub.calls, call):
                self.use_counts[index] += 1
                return stub
        if call.kind == _NOOP:
            return None
        raise NoStubError(call, attempt)


class StubTool:
    """The tool of one attempt, which returns the response of its stub. Without a stub it is the tool noop."""

    def __init__(self, call: ToolCall, stub: Stub | None, timeout: float | None, requests: Requests) -> None:
        self.spec = ToolSpec(call.kind, "returns the response of a stub", timeout=timeout)
        self._step = call.step
        self._stub = stub
        self._requests = requests

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """See noetl_activities.tool.Tool."""
        await self._requests.wait_until_sent(self._step)
        stub = self._stub
        if stub is None:
            return await NoopTool().run(request, context)
        await asyncio.sleep(stub.takes)
        return await stub_outcome(stub, request, context)


async def stub_outcome(stub: Stub, request: Request, context: ToolContext) -> Outcome:
    """Return the outcome that the tool would have for the stub."""
    if stub.error is not None:
        return _error_outcome(stub.error)
    if stub.rows is not None:
        columns = list(dict.fromkeys(name for row in stub.rows for name in row))
        rows = ([row.get(name) for name in columns] for row in stub.rows)
        return Outcome("ok", sql_result([statement_result(columns, rows)]))
    if request.kind == "http":
        return await _http_outcome(stub.http or StubResponse(200, {}, stub.result), request, context)
    return Outcome("ok", stub.result)


def _error_outcome(error: StubError) -> Outcome:
    info = ErrorInfo(error.kind, error.message, error.code, error.retryable, retry_after=error.retry_after)
    return Outcome("error", error=info)


async def _http_outcome(stub_response: StubResponse, request: Request, context: ToolContext) -> Outcome:
    """Return the outcome of the http tool for the response."""
    is_text = isinstance(stub_response.body, str)
    headers = {"content-type": "text/plain" if is_text else "application/json", **stub_response.headers}
    body = (
        b""
        if stub_response.body is None
        else (stub_response.body if is_text else json.dumps(stub_response.body)).encode()
    )
    config = request.config
    http_request = httpx.Request(
        str(config.get("method") or "GET"), str(config.get("url") or config.get("endpoint") or "")
    )
    response = httpx.Response(stub_response.status, headers=headers, request=http_request)
    return await outcome_of(HttpResponse(response, bytearray(body)), 0.0, context)


class _Sinks:
    """Implements noetl_activities.sinks.Sinks for one attempt: stores rows in memory, or fails with ``error``."""

    def __init__(self, stored: dict[str, list[Json]], error: StubError | None) -> None:
        self._stored = stored
        self._error = error

    async def store(self, request: SinkRequest, context: ToolContext) -> StoreResult:
        """Add the rows to ``stored``. Raises SinkError."""
        del context
        if self._error is not None:
            raise SinkError(_error_outcome(self._error))
        target = str(request.config.get("table") or request.config.get("statement") or request.kind)
        rows = cast("list[Any]", sink_rows(request.config, request.result))
        self._stored.setdefault(target, []).extend(rows)
        return StoreResult(len(rows), target, is_in_ledger=True)

    async def find_outcome(self, lookup: OutcomeLookup, context: ToolContext) -> str | None:
        """Return None, as no outcome is lost in a test."""
        del lookup, context
        return None
