"""One tool call on the wire: the input and the result of its activity.

These structs are the JSON in Temporal's history: ``ToolCall`` is the activity's only argument, ``ToolReport`` its
result. The mirror reads the same JSON by key, so field names are a contract (dev/ARCHITECTURE.md, Wire). History has
them once per call, so defaults are left out: those of an ``AttemptRecord`` describe the successful only attempt of a
call.
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
    "RuleWarning",
    "SinkCall",
    "SinkRecord",
    "StoredRef",
    "ToolCall",
    "ToolReport",
    "sink_suffix",
]

PlainOutcome: TypeAlias = dict[str, Any]
"""The tool's outcome envelope as JSON: {status, result, error?, meta?, http?|pg?|py?} (semantics.md 19)."""

AttemptStatus: TypeAlias = Literal["ok", "error", "lost", "shutdown", "paused", "reset", "cancelled"]
"""How an attempt ended. Only ok and error are outcomes and count as attempts of a retry; lost: its worker disappeared;
shutdown, paused and reset: it was interrupted and is run again; cancelled: the call was stopped.
"""


class CallRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A policy rule; ``index`` is its position in the policy. Its numbers are rendered when the rule applies, with the
    names that ``when`` sees (semantics.md 18).
    """

    index: int
    do: str
    on_status: str = "any"
    when: str | None = None
    attempts: Value | None = None
    backoff: str = "none"
    multiplier: float = MULTIPLIER
    delay: Value | None = None
    max_delay: Value | None = None
    jitter: bool = False


class SinkCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sink that stores the result of the tool, if ``guard`` allows it. Its templates are rendered in the activity,
    which has the result. ``key`` is the key of the call with the position of the sink. ``mode: replace`` empties the
    destination once for each ``replace_key``, which is the same for all calls of a step run (semantics.md 26).
    """

    kind: str
    config: Value
    key: str
    replace_key: str = ""
    mode: str = "insert"
    auth: Json = None
    guard: Guard | None = None


def sink_suffix(index: int) -> str:
    """Return the end of the key of the sink at this position among all sinks of the task."""
    return f"/sink{index}"


class LeaseRenewal(msgspec.Struct, frozen=True, omit_defaults=True):
    """How to renew the lease of the row that a call processes: by a call of the tool ``kind`` every ``interval``
    seconds. A lease lasts ``seconds``; this one began at ``since``, in milliseconds since the epoch. If a renewal
    changes no row, the lease is lost. ``outer`` is the lease of the row that a loop around this one processes.
    """

    kind: str
    config: dict[str, Json]
    seconds: float
    interval: float
    since: int
    auth: Json = None
    outer: LeaseRenewal | None = None


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rendered call.

    ``id`` is unique in its workflow, ``key`` is the same for all attempts, workers and replays, and begins with the
    execution id. ``scope`` has exactly the names that the templates of rules and sinks read. ``rules`` None means no
    policy: ok continues, an error fails. ``event_id`` is the id of the ``task.started`` event, the parent of every
    attempt. ``outcome_to_store`` is set for a call that only performs sinks, after the last page; its result may be a
    reference. For the sinks of a guarded task (``is_guarded``), ``scope`` shadows the names of its own outcome.
    ``idempotency_key`` is the header that carries the key. ``names`` are those that the outcome binds for rules and
    sinks. ``secrets_key`` is the key of the references to secrets in the call, if there are any. ``lease`` is that of
    the row that the call processes. Stored lists in the ``input`` of a call of a playbook are null there, and
    ``stored_input`` has the references to them under their JSON pointers.
    """

    id: str
    key: str
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
    outcome_to_store: PlainOutcome | None = None
    is_guarded: bool = False
    secrets_key: str = ""
    lease: LeaseRenewal | None = None
    stored_input: dict[str, StoredRef] = {}

    @property
    def execution_id(self) -> int:
        """The execution that makes the call."""
        return int(self.key.partition("/")[0])


class SinkRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one sink. ``duplicate``: the key had been stored before, and nothing was written again. ``warning``
    says why its rows may be stored more than once.
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

    ``is_called`` is False if the tool was not run: the attempt ended before that, or the outcome of an earlier attempt
    was read from the ledger (``is_reused``). ``rule`` is the index of the policy rule that matched and ``do`` its
    action; ``delay`` is the time until the next attempt in seconds, if there is one. ``indeterminate`` lists names
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
    is_reused: bool = False


class AttemptCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many attempts there were: ``used`` count as attempts of a retry, ``ok`` of them succeeded,
    ``interrupted`` were stopped while the tool ran.
    """

    total: int = 0
    used: int = 0
    ok: int = 0
    lost: int = 0
    interrupted: int = 0


class RuleFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """The condition, or a number, of the rule at this index could not be evaluated."""

    message: str
    rule: int | None = None
    in_condition: bool = False


class RuleWarning(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rule at this index did not match because it used an undefined name."""

    rule: int
    message: str


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """A slice of a stored list: ``count`` items from index ``start`` of the list under ``key``. With ``count`` 0 it is
    the whole value under ``key``, as one item. Without a ``key`` its items are ``inline_items``, or are ``count``
    nulls.
    """

    key: str = ""
    start: int = 0
    count: int = 0
    inline_items: list[Json] = []


class StoredRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reference to a value in the payload store; ``bytes`` is its size as JSON.

    The value is the list of all items of its ``parts``, or the single item of its only part if it ``is_one``. With a
    ``pointer`` (a JSON pointer), only a part of the result is stored: the result is the object ``container``, which can
    be read without a load, with the stored value in place of the null at ``pointer``.
    """

    parts: tuple[Part, ...]
    bytes: int = 0
    is_one: bool = False
    pointer: str = ""
    container: dict[str, Json] = {}


class ToolReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of the activity.

    ``rule`` is the index of the rule that ended the call, None if none matched; ``exhausted`` if that rule was a retry
    without attempts left. ``rule_failure`` is set if the rules could not be evaluated: the task fails at that rule.
    ``attempts`` are the known ones, always including the last; ``counts`` covers all, and is left out if all are known
    and count. ``is_decided`` is False for a call that no activity reported, because it was lost or called a playbook:
    then the machine evaluates the rules. ``warnings`` are those of the last attempt's rules. A large result is
    ``stored``, and the outcome then has none; ``preview`` is its beginning as JSON, for the log.
    """

    outcome: PlainOutcome
    rule: int | None = None
    exhausted: bool = False
    attempts: tuple[AttemptRecord, ...] = ()
    counts: AttemptCounts = AttemptCounts()
    rule_failure: RuleFailure | None = None
    is_decided: bool = True
    warnings: tuple[RuleWarning, ...] = ()
    stored: StoredRef | None = None
    preview: str = ""

    @property
    def calls(self) -> int:
        """How many of its attempts count as calls."""
        return self.counts.used or len(self.attempts)
