"""One tool call on the wire: what goes to the activity and what comes back.

These structs are the JSON in Temporal's history: ``ToolCall`` is the activity's only argument, ``ToolReport`` its
result. The mirror reads the same JSON by key, so a field's name is a contract (dev/ARCHITECTURE.md, Wire). They stand
in history once a call, so what is as usual is left out: the defaults of an ``AttemptRecord`` are those of a call's only
attempt that went well.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from noetl_compiler.graph import Guard, Json, Value
from noetl_compiler.language.defaults import MULTIPLIER
from noetl_compiler.language.names_profile import OutcomeNames

__all__ = [
    "AttemptCounts",
    "AttemptRecord",
    "AttemptStatus",
    "CallRule",
    "LeaseRenewal",
    "Part",
    "PlainOutcome",
    "RuleFailure",
    "RuleMistake",
    "SinkCall",
    "SinkRecord",
    "StoredRef",
    "ToolCall",
    "ToolReport",
]

PlainOutcome: TypeAlias = dict[str, Any]
"""The tool's outcome envelope as JSON: {status, result, error?, meta?, http?|pg?|py?} (semantics.md 19)."""

AttemptStatus: TypeAlias = Literal["ok", "error", "lost", "shutdown", "paused", "reset", "cancelled"]
"""How an attempt ended. Only ok and error are outcomes and count against a rule; lost means that its worker vanished;
shutdown, paused and reset that it was interrupted and is run again; cancelled that the call was stopped.
"""


class CallRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A policy rule; ``index`` is its place in the task's policy. Its numbers are rendered where it is decided, with
    the names that ``when`` sees (semantics.md 18).
    """

    index: int
    do: str
    on: str = "any"
    when: str | None = None
    attempts: Value | None = None
    backoff: str = "none"
    multiplier: float = MULTIPLIER
    delay: Value | None = None
    max_delay: Value | None = None
    jitter: bool = False


class SinkCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sink to perform with the tool's result, where ``guard`` allows it. Its templates are rendered in the activity,
    where the result is. ``key`` is the call's with the sink's place; ``once`` is the same for all calls of a step run:
    ``mode: replace`` empties the destination once under it (semantics.md 26).
    """

    kind: str
    config: Value
    key: str
    once: str = ""
    mode: str = "insert"
    auth: Json = None
    guard: Guard | None = None


class LeaseRenewal(msgspec.Struct, frozen=True, omit_defaults=True):
    """How to renew the lease of the claimed row that a call works on: a call of the tool ``kind`` every ``interval``
    seconds. A lease lasts ``seconds``, and did at ``since``, in milliseconds since the epoch. A renewal that changes no
    row tells that the lease is lost.
    """

    kind: str
    config: dict[str, Json]
    seconds: float
    interval: float
    since: int
    auth: Json = None


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rendered call.

    ``id`` is unique in its workflow, ``key`` stable over attempts, workers and replays. ``scope`` holds exactly what
    the rules' and sinks' templates name. ``rules`` None means no policy: ok continues, an error fails. ``event_id``
    is that of the call's ``task.started`` event, parent of every attempt. ``store`` is set for a call that is nothing
    but its sinks, after the last page: the outcome to store, whose result may be a reference. The sinks of an ``aside``
    see the names in ``scope`` before those of its own outcome. ``idempotency_key`` is the header in which the call
    sends its key. ``names`` are those that the outcome binds for rules and sinks. ``secrets_key`` is that of the
    references to secrets in it, if the run has any. ``lease`` is that of the row that it works on.
    """

    id: str
    key: str
    execution_id: int
    step: str
    task: str
    kind: str
    event_id: int
    names: OutcomeNames = "usual"
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
    idempotency_key: str | None = None
    iteration: int | None = None
    page: int | None = None
    store: PlainOutcome | None = None
    aside: bool = False
    secrets_key: str = ""
    lease: LeaseRenewal | None = None


class SinkRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one sink did. ``duplicate`` when the key had been stored before: nothing was written again. ``warning`` says
    why its rows may be stored more than once.
    """

    kind: str
    key: str
    status: Literal["ok", "error"]
    started: int
    ended: int
    rows: int = 0
    table: str | None = None
    duplicate: bool = False
    error: str | None = None
    warning: str | None = None


class AttemptRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt. Times in milliseconds since the epoch, UTC.

    ``is_called`` is False when the tool was not run: the attempt ended before that, or the outcome was taken from the
    ledger, where an attempt before had left it (``is_taken``). ``rule`` is the index of the policy rule that matched
    and ``do`` its action; ``delay`` the seconds until the next attempt when there is one. ``indeterminate`` lists names
    undefined in a predicate. ``worker`` is left out of the last attempt of a report: history names it.
    """

    number: int = 1
    started: int = 0
    status: AttemptStatus = "ok"
    ended: int | None = None
    error: dict[str, Json] | None = None
    rule: int | None = None
    do: str | None = None
    delay: float | None = None
    exhausted: bool = False
    indeterminate: tuple[str, ...] = ()
    sinks: tuple[SinkRecord, ...] = ()
    worker: str = ""
    is_called: bool = True
    is_taken: bool = False


class AttemptCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many attempts there were: ``used`` count against a rule, ``ok`` are those among them that went well, ``cut``
    those that were interrupted while the tool ran.
    """

    total: int = 0
    used: int = 0
    ok: int = 0
    lost: int = 0
    cut: int = 0


class RuleFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A predicate or a number of the rule at this index raised."""

    message: str
    rule: int | None = None


class RuleMistake(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rule at this index did not match because it used an undefined name."""

    rule: int
    message: str


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """A slice of a stored list: ``count`` items from index ``start`` of the list under ``key``; with ``count`` 0 the
    whole value under ``key``, as one item. Without a ``key`` the items are inline in ``given``, or are ``count`` nulls.
    """

    key: str = ""
    start: int = 0
    count: int = 0
    given: list[Json] = []


class StoredRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reference to a value in the payload store; ``bytes`` is its size as JSON.

    The value is the list of all items of its ``parts``, or the single item of its only part if it ``is_one``. With
    ``under`` the result is an object that has the value under that name, beside the fields in ``beside``, which can be
    read without a load.
    """

    parts: tuple[Part, ...]
    bytes: int = 0
    is_one: bool = False
    under: str = ""
    beside: dict[str, Json] = {}


class ToolReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the activity returns.

    ``rule`` is the index of the rule that ended the call, None when none matched; ``exhausted`` when that rule was a
    retry with no attempts left. ``failed`` when the rules could not be evaluated: the task fails at that rule.
    ``attempts`` are those that are known, the last one always; ``counts`` is right for all of them, and left out where
    all are known and each counts. ``is_decided`` is False for a call that no activity reported, because it was lost or
    because it called a playbook: then the machine asks the rules. ``mistakes`` are those of the last attempt's rules. A
    large result is ``stored``, and then the outcome has none.
    """

    outcome: PlainOutcome
    rule: int | None = None
    exhausted: bool = False
    attempts: tuple[AttemptRecord, ...] = ()
    counts: AttemptCounts = AttemptCounts()
    failed: RuleFailure | None = None
    is_decided: bool = True
    mistakes: tuple[RuleMistake, ...] = ()
    stored: StoredRef | None = None

    @property
    def calls(self) -> int:
        """How many of its attempts count as calls."""
        return self.counts.used or len(self.attempts)
