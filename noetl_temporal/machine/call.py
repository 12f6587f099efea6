"""One tool call on the wire: what goes to the activity and what comes back.

These structs are the JSON in Temporal's history: ``ToolCall`` is the activity's only argument, ``ToolReport`` its
result. The mirror reads the same JSON by key, so a field's name is a contract (dev/ARCHITECTURE.md, Wire).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from noetl_compiler.graph import Guard, Json, Value

__all__ = ["AttemptRecord", "CallRule", "Outcome", "RuleFailure", "SinkCall", "SinkRecord", "ToolCall", "ToolReport"]

Outcome: TypeAlias = dict[str, Any]
"""The tool's outcome envelope as JSON: {status, result, error?, meta?, http?|pg?|py?} (semantics.md 19)."""


class CallRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A policy rule with its numbers rendered; ``index`` is its place in the task's policy. Delays in seconds."""

    index: int
    do: str
    on: str = "any"
    when: str | None = None
    attempts: int | None = None
    backoff: str = "none"
    multiplier: float = 2.0
    delay: float = 0.0
    max_delay: float | None = None
    jitter: bool = False


class SinkCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sink to perform with the tool's result, where ``guard`` allows it. Its templates are rendered in the activity,
    where the result is.
    """

    kind: str
    config: Value
    key: str
    mode: str = "insert"
    auth: Json = None
    guard: Guard | None = None


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rendered call.

    ``id`` is unique in its workflow, ``key`` stable over attempts, workers and replays. ``scope`` holds exactly what
    the rules' and sinks' templates name. ``rules`` None means no policy: ok continues, an error fails. ``event_id``
    is that of the call's ``task.started`` event, parent of every attempt. ``store`` is set for a call that is nothing
    but its sinks, after the last page: the outcome to store. The sinks of an ``aside`` see the names in ``scope``
    before those of its own outcome.
    """

    id: str
    key: str
    execution_id: int
    step: str
    task: str
    kind: str
    event_id: int
    dialect: str
    config: dict[str, Json] = {}
    input: dict[str, Json] = {}
    auth: Json = None
    timeout: float | None = None
    connect_timeout: float | None = None
    read_timeout: float | None = None
    rules: tuple[CallRule, ...] | None = None
    scope: dict[str, Json] = {}
    sinks: tuple[SinkCall, ...] = ()
    idempotent: bool = True
    iteration: int | None = None
    page: int | None = None
    store: Outcome | None = None
    aside: bool = False


class SinkRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one sink did. ``duplicate`` when the key had been stored before: nothing was written again."""

    kind: str
    key: str
    status: Literal["ok", "error"]
    started: int
    ended: int
    rows: int = 0
    table: str | None = None
    duplicate: bool = False
    error: str | None = None


class AttemptRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt. Times in milliseconds since the epoch, UTC. ``lost`` when its worker never reported.

    ``rule`` is the index of the policy rule that matched and ``do`` its action; ``delay`` the seconds until the next
    attempt when there is one. ``indeterminate`` lists names undefined in a predicate.
    """

    number: int
    started: int
    status: Literal["ok", "error", "lost", "shutdown", "paused", "reset", "cancelled"]
    ended: int | None = None
    error: dict[str, Json] | None = None
    rule: int | None = None
    do: str | None = None
    delay: float | None = None
    exhausted: bool = False
    indeterminate: tuple[str, ...] = ()
    sinks: tuple[SinkRecord, ...] = ()
    worker: str = ""


class RuleFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A predicate or number of the policy has no value; ``rule`` is the index of its rule."""

    message: str
    rule: int | None = None


class ToolReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the activity returns. ``rule`` is the index of the rule that ended the call, None when none matched;
    ``exhausted`` when that rule was a retry with no attempts left. ``failed`` tells that the rules could not be asked.
    ``is_decided`` is False for the shell's account of a call whose activity never reported: then the machine asks the
    rules."""

    outcome: Outcome
    rule: int | None = None
    exhausted: bool = False
    attempts: tuple[AttemptRecord, ...] = ()
    failed: RuleFailure | None = None
    is_decided: bool = True
