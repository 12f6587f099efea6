"""The one place where a tool becomes an activity.

How it works. An activity execution is one tool call with all its attempts. Each attempt: run the tool, store its
result in the sinks, ask the policy. ``retry`` raises a retryable ApplicationError with the delay, so Temporal itself
waits and shows when and why; anything else returns a ToolReport. Attempts leave no events in history, so each one's
record goes with the heartbeats to the next (attempt_log.py) and the report has them all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from msgspec.structs import replace
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.outcome import Outcome
from noetl_activities.sinks import Stored, store
from noetl_activities.tool import Credential, Json, Request, Tool
from noetl_compiler import templates
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.attempt_log import AttemptLog, now
from noetl_temporal.machine.call import Outcome as PlainOutcome
from noetl_temporal.machine.call import SinkCall, SinkRecord, ToolCall, ToolReport
from noetl_temporal.machine.policy import Decision, allows, decide
from noetl_temporal.machine.scope import Chain, call_names, sink_config
from noetl_temporal.naming import activity_type
from noetl_temporal.tool_outcome import fitted, guarded, refusal

__all__ = ["MAX_ATTEMPTS", "MAX_LOST", "tool_activity"]

MAX_LOST = 5
"""Attempts that may be lost with their worker; after one more the call is given up: it may be what kills them."""

MAX_ATTEMPTS = 1_000
"""Of one call, whatever its rules say: the log of them has to fit. Polling without end is ``again``."""

LONGEST_DELAY = 365 * 86_400.0
"""Seconds. An exponential backoff without ``max_delay`` soon exceeds what a date can say."""


def tool_activity(tool: Tool, source: CredentialSource, limit: int) -> Callable[..., Any]:
    """The activity of a tool: ``noetl.<kind>``. ``limit`` is the bytes its outcome may have."""

    @activity.defn(name=activity_type(tool.spec.kind))
    async def run(call: ToolCall) -> ToolReport:
        return await _Attempt(tool, call, Credentials(source), AttemptLog(), limit).run()

    return run


class _Context:
    """What the running tool may ask. See noetl_activities.tool.ToolContext."""

    def __init__(self, log: AttemptLog, credentials: Credentials) -> None:
        self._log = log
        self._credentials = credentials

    @property
    def attempt(self) -> int:
        return self._log.number

    def heartbeat(self) -> None:
        self._log.beat()

    async def credential(self, auth: Json) -> Credential:
        return await self._credentials.resolve(auth)


@dataclass
class _Attempt:
    """One attempt of a call."""

    tool: Tool
    call: ToolCall
    credentials: Credentials
    log: AttemptLog
    limit: int

    async def run(self) -> ToolReport:
        """The report that ends the call, or the error that asks Temporal for the next attempt."""
        refused = self._refused()
        if refused is not None:
            return self._conclude(refused, (), may_retry=False)
        async with self.log.beating():
            outcome, sinks = await self._call_and_store()
        outcome = fitted(self.credentials.scrubbed(outcome), self.limit)
        return self._conclude(outcome, sinks, may_retry=self.log.number < MAX_ATTEMPTS)

    def _refused(self) -> PlainOutcome | None:
        """An outcome instead of another attempt, when an earlier one vanished and must not be repeated."""
        lost = self.log.lost
        if lost and not self.call.idempotent:
            message = "an attempt was lost with its worker: whether the call took effect is not known"
            return refusal("unknown_outcome", message)
        if lost > MAX_LOST:
            return refusal("worker_lost", f"{lost} workers were lost while running this call")
        return None

    # ---- the call -------------------------------------------------------------------------------------------------

    async def _call_and_store(self) -> tuple[PlainOutcome, tuple[SinkRecord, ...]]:
        context = _Context(self.log, self.credentials)
        outcome = self.call.store or await guarded(lambda: self.tool.run(self._request(), context), self.call.timeout)
        sinks: list[SinkRecord] = []
        if outcome["status"] == "ok":
            for sink in self.call.sinks:
                record, failure = await self._store(sink, outcome, context)
                sinks += [record] if record is not None else []
                if failure is not None:
                    return failure, tuple(sinks)
        return outcome, tuple(sinks)

    def _request(self) -> Request:
        call = self.call
        return Request(
            kind=call.kind,
            config=call.config,
            input=call.input,
            auth=call.auth,
            timeout=call.timeout,
            connect_timeout=call.connect_timeout,
            read_timeout=call.read_timeout,
            key=call.key,
            execution_id=str(call.execution_id),
        )

    async def _store(
        self, sink: SinkCall, outcome: PlainOutcome, context: _Context
    ) -> tuple[SinkRecord | None, PlainOutcome | None]:
        """Perform one sink: its record, none when its guard forbids it, and an outcome when it failed."""
        started = now()
        done: list[Stored] = []

        async def run() -> Outcome:
            if not allows(sink.guard, "ok", self._scope(outcome)):
                return Outcome("ok")
            config = sink_config(sink.config, self._scope(outcome))
            done.append(
                await store(sink.kind, config, sink.mode, sink.key, _content(self._kind, outcome), sink.auth, context)
            )
            return Outcome("ok")

        result = await guarded(run, self.call.timeout)
        if result["status"] == "ok" and not done:
            return None, None
        if result["status"] == "ok":
            found = done[0]
            record = SinkRecord(sink.kind, sink.key, "ok", started, now(), found.rows, found.table, found.duplicate)
            return record, None
        message = self.credentials.scrubbed(str(result["error"]["message"]))
        failure = {**result, "error": {**result["error"], "message": f"sink {sink.kind}: {message}"}}
        return SinkRecord(sink.kind, sink.key, "error", started, now(), error=message), failure

    @property
    def _kind(self) -> str:
        """Under which the outcome is seen: a call that only stores has a collected one."""
        return self.call.kind if self.call.store is None else "collected"

    def _scope(self, outcome: PlainOutcome) -> Mapping[str, Any]:
        call = self.call
        names = call_names(call.dialect, call.step, self._kind, outcome, self.log.used, call.page or 1)
        clock = {"now": templates.Clock(now())}
        return Chain(clock, call.scope, names) if call.aside else Chain(names, clock, call.scope)

    # ---- the decision ---------------------------------------------------------------------------------------------

    def _conclude(self, outcome: PlainOutcome, sinks: tuple[SinkRecord, ...], may_retry: bool) -> ToolReport:
        try:
            decision = self._decide(outcome)
        except TemplateFailure:
            return ToolReport(outcome)  # without attempts: the machine decides, and fails with the place
        if decision.do == "retry" and not may_retry:
            decision = replace(decision, do="fail", delay=0.0, exhausted=True)
        attempts = self.log.end(outcome, decision, sinks)
        if decision.do != "retry":
            return ToolReport(outcome, decision.rule, decision.exhausted, attempts)
        self.log.beat()
        error = _error_of(outcome)
        raise ApplicationError(
            str(error.get("message") or f"{self.call.task} is called again"),
            type=f"{self.call.kind}.{error.get('code') or error.get('kind') or 'retry'}",
            next_retry_delay=timedelta(seconds=min(LONGEST_DELAY, decision.delay)),
            category=ApplicationErrorCategory.BENIGN,
        )

    def _decide(self, outcome: PlainOutcome) -> Decision:
        if not self.call.rules:
            return Decision()
        return decide(
            self.call.rules,
            outcome["status"],
            self._scope(outcome),
            self.log.used,
            retry_after=_error_of(outcome).get("retry_after"),
            jitter=random.random(),  # noqa: S311 - spreads retries, keeps no secret
        )


def _content(kind: str, outcome: Mapping[str, Json]) -> Json:
    """What a sink stores when the playbook names nothing: an HTTP response's body, any other result as it is."""
    result = outcome.get("result")
    return cast("dict[str, Json]", result).get("data") if kind == "http" and isinstance(result, dict) else result


def _error_of(outcome: Mapping[str, Json]) -> Mapping[str, Json]:
    return outcome.get("error") or {}
