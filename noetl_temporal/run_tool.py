"""The one place where a tool becomes an activity.

How it works. An activity execution is one tool call with all its attempts. Each attempt: run the tool, store its
result in the sinks, ask the policy. ``retry`` raises a retryable ApplicationError with the delay, so Temporal itself
waits and shows when and why; anything else returns a ToolReport. Attempts leave no events in history, so each one's
record rides in the heartbeat details to the next and the report has them all. The records of an attempt's start are
sent before it runs: an attempt that never ended its record was lost with its worker. Lost attempts do not count
against a rule (semantics.md 22a).
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import msgspec
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.errors import SinkError, ToolError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.sinks import Stored, store
from noetl_activities.tool import Credential, Json, Request, Tool
from noetl_compiler import templates
from noetl_temporal.machine.call import AttemptRecord, SinkCall, SinkRecord, ToolCall, ToolReport
from noetl_temporal.machine.policy import Decision, decide
from noetl_temporal.machine.scope import Chain, outcome_names
from noetl_temporal.naming import activity_type

__all__ = ["BEAT", "MAX_INLINE_BYTES", "MAX_LOST", "MAX_STORED_BYTES", "tool_activity"]

BEAT = timedelta(seconds=2)
"""A call learns that it is cancelled by the answer to a heartbeat: this is how long a person waits for it."""

MAX_LOST = 5
"""Attempts that may be lost with their worker before the call is given up: it may be what kills them."""

MAX_INLINE_BYTES = 1_500_000
"""A larger result would not fit Temporal's 2 MB and would be retried without end."""

MAX_STORED_BYTES = 64 * 1024 * 1024
"""The bound where large values lie in Postgres (claim_check.py)."""


def tool_activity(tool: Tool, source: CredentialSource, largest: int = MAX_INLINE_BYTES) -> Callable[..., Any]:
    """The activity of a tool: ``noetl.<kind>``."""

    @activity.defn(name=activity_type(tool.spec.kind))
    async def run(call: ToolCall) -> ToolReport:
        return await _Attempt(tool, call, Credentials(source), largest).run()

    return run


class _Context:
    """What the running tool may ask. See noetl_activities.tool.ToolContext."""

    def __init__(self, attempt: int, credentials: Credentials, beat: Callable[[], None]) -> None:
        self._attempt = attempt
        self._credentials = credentials
        self._beat = beat

    @property
    def attempt(self) -> int:
        return self._attempt

    def heartbeat(self) -> None:
        self._beat()

    async def credential(self, auth: Json) -> Credential:
        return await self._credentials.resolve(auth)


@dataclass
class _Attempt:
    """One attempt of a call. ``log`` has the records of all attempts, the last being this one's."""

    tool: Tool
    call: ToolCall
    credentials: Credentials
    largest: int
    log: list[AttemptRecord] = field(default_factory=list[AttemptRecord])

    async def run(self) -> ToolReport:
        """The report that ends the call, or the error that asks Temporal for the next attempt."""
        self.log = _earlier_attempts()
        lost = sum(1 for record in self.log if record.status == "lost")
        started = _now()
        self.log.append(AttemptRecord(activity.info().attempt, started, "lost", worker=_worker()))
        refused = self._refused(lost)
        if refused is not None:
            return self._report(refused, (), Decision())
        self._beat()
        beating = asyncio.create_task(self._keep_beating())
        try:
            outcome, sinks = await self._call_and_store()
        finally:
            beating.cancel()
        return self._conclude(self.credentials.scrubbed(outcome), sinks)

    def _refused(self, lost: int) -> dict[str, Json] | None:
        """An outcome instead of another attempt, when an earlier one vanished and must not be repeated."""
        if not lost:
            return None
        if not self.call.idempotent:
            message = "an attempt was lost with its worker: whether the call took effect is not known"
            return _error("unknown_outcome", message)
        if lost >= MAX_LOST:
            return _error("worker_lost", f"{lost} workers were lost while running this call")
        return None

    def _beat(self) -> None:
        activity.heartbeat(self.log)

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(BEAT.total_seconds())
            self._beat()

    # ---- the call -------------------------------------------------------------------------------------------------

    async def _call_and_store(self) -> tuple[dict[str, Json], tuple[SinkRecord, ...]]:
        context = _Context(activity.info().attempt, self.credentials, self._beat)
        outcome = self.call.store or await self._call_tool(context)
        sinks: list[SinkRecord] = []
        if outcome["status"] == "ok":
            for sink in self.call.sinks:
                record, failure = await self._store(sink, outcome, context)
                sinks.append(record)
                if failure is not None:
                    return failure, tuple(sinks)
        if len(msgspec.json.encode(outcome)) > self.largest:
            outcome = _error(
                "too_large",
                f"the result is over {self.largest / 1e6:g} MB: store it in a sink, or ask for less at once",
            )
        return outcome, tuple(sinks)

    async def _call_tool(self, context: _Context) -> dict[str, Json]:
        call = self.call
        request = Request(
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
        return await self._guarded(lambda: self.tool.run(request, context))

    async def _guarded(self, run: Callable[[], Any]) -> dict[str, Json]:
        """Whatever a tool raises is an outcome; only cancellation passes through."""
        try:
            async with asyncio.timeout(self.call.timeout):
                return _plain(await run())
        except TimeoutError:
            return _plain(
                Outcome("error", error=ErrorInfo("timeout", f"no answer in {self.call.timeout:g}s", retryable=True))
            )
        except SinkError as error:
            return _plain(error.outcome)
        except ToolError as error:
            return _error(error.kind, str(error) or (type(error).__doc__ or "").strip())
        except templates.TemplateFailure as failure:
            return _error("template", failure.message)
        except Exception as error:
            return _error("internal", f"{type(error).__name__}: {error}")

    async def _store(
        self, sink: SinkCall, outcome: dict[str, Json], context: _Context
    ) -> tuple[SinkRecord, dict[str, Json] | None]:
        """Perform one sink: its record, and an outcome when it failed."""
        started = _now()
        kind = self.call.kind if self.call.store is None else "collected"
        scope = Chain(outcome_names(kind, outcome, activity.info().attempt, self.call.page or 1), self.call.scope)
        done: list[Stored] = []

        async def run() -> Outcome:
            config: dict[str, Json] = templates.render(sink.config, scope) or {}
            done.append(
                await store(sink.kind, config, sink.mode, sink.key, _content(kind, outcome), sink.auth, context)
            )
            return Outcome("ok")

        result = await self._guarded(run)
        if result["status"] == "ok":
            found = done[0]
            record = SinkRecord(sink.kind, sink.key, "ok", started, _now(), found.rows, found.table, found.duplicate)
            return record, None
        message = self.credentials.scrubbed(str(result["error"]["message"]))
        failure = {**result, "error": {**result["error"], "message": f"sink {sink.kind}: {message}"}}
        return SinkRecord(sink.kind, sink.key, "error", started, _now(), error=message), failure

    # ---- the decision ---------------------------------------------------------------------------------------------

    def _conclude(self, outcome: dict[str, Json], sinks: tuple[SinkRecord, ...]) -> ToolReport:
        decision = self._decide(outcome)
        report = self._report(outcome, sinks, decision)
        if decision.do != "retry":
            return report
        self.log = list(report.attempts)
        self._beat()
        error = _error_of(outcome)
        raise ApplicationError(
            str(error.get("message") or f"{self.call.task} is called again"),
            type=f"{self.call.kind}.{error.get('code') or error.get('kind') or 'retry'}",
            next_retry_delay=timedelta(seconds=decision.delay),
            category=ApplicationErrorCategory.BENIGN,
        )

    def _decide(self, outcome: dict[str, Json]) -> Decision:
        if not self.call.rules:
            return Decision()
        used = sum(1 for record in self.log[:-1] if record.status != "lost") + 1
        kind = self.call.kind if self.call.store is None else "collected"
        names = outcome_names(kind, outcome, used, self.call.page or 1)
        error = _error_of(outcome)
        return decide(
            self.call.rules,
            outcome["status"],
            Chain(names, self.call.scope),
            used,
            retry_after=error.get("retry_after"),
            jitter=random.random(),  # noqa: S311 - spreads retries, keeps no secret
        )

    def _report(self, outcome: dict[str, Json], sinks: tuple[SinkRecord, ...], decision: Decision) -> ToolReport:
        """The report with this attempt's record completed."""
        status = "ok" if outcome["status"] == "ok" else "error"
        self.log[-1] = msgspec.structs.replace(
            self.log[-1],
            status=status,
            ended=_now(),
            error=outcome.get("error"),
            rule=decision.rule,
            do=decision.do,
            delay=decision.delay if decision.do == "retry" else None,
            exhausted=decision.exhausted,
            indeterminate=decision.indeterminate,
            sinks=sinks,
        )
        return ToolReport(outcome, decision.rule, decision.exhausted, tuple(self.log))


def _earlier_attempts() -> list[AttemptRecord]:
    """The records that came with the heartbeat; an attempt whose record says nothing of its end was lost."""
    details = activity.info().heartbeat_details
    return [msgspec.convert(one, AttemptRecord) for one in cast("list[Any]", details[0])] if details else []


def _content(kind: str, outcome: Mapping[str, Json]) -> Json:
    """What a sink stores when the playbook names nothing: an HTTP response's body, any other result as it is."""
    result = outcome.get("result")
    return cast("dict[str, Json]", result).get("data") if kind == "http" and isinstance(result, dict) else result


def _error_of(outcome: Mapping[str, Json]) -> Mapping[str, Json]:
    return outcome.get("error") or {}


def _plain(outcome: Outcome) -> dict[str, Json]:
    return cast("dict[str, Json]", msgspec.to_builtins(outcome, str_keys=True))


def _error(kind: str, message: str) -> dict[str, Json]:
    return _plain(Outcome("error", error=ErrorInfo(kind, message)))


def _now() -> int:
    return time.time_ns() // 1_000_000


def _worker() -> str:
    """As Temporal itself names it: ``pid@host``."""
    return f"{os.getpid()}@{socket.gethostname()}"
