"""One call of a tool: what it is given, what follows it, where its result goes."""

from __future__ import annotations

import msgspec

from noetl_compiler.graph.values import Assign, Span, Template, Timeout, Value
from noetl_compiler.language.defaults import COLLECTED_AS, MULTIPLIER
from noetl_compiler.language.words import Action, Backoff, OnStatus, SinkLevel, SinkMode, Strategy, Unmatched

__all__ = ["Circuit", "Collect", "Guard", "Output", "Policy", "Rule", "Select", "Sink", "Splice", "Task"]


class Collect(msgspec.Struct, frozen=True):
    """How the results of one task's repeated calls become one result.

    ``append`` extends the list with the items at ``path``, ``collect`` appends the value itself, ``merge`` deep-merges
    maps, ``replace`` keeps the last. ``into`` names the running value in templates.
    """

    strategy: Strategy = "append"
    path: str = ""
    into: str = COLLECTED_AS


class Guard(msgspec.Struct, frozen=True):
    """In which cases something is done: at this boundary, when ``when`` holds (none: always) and no ``unless`` does.

    An undefined name makes a predicate not hold, in ``unless`` as well (dev/decisions/0011).
    """

    on: OnStatus = "ok"
    when: Template | None = None
    unless: tuple[Template, ...] = ()


class Rule(msgspec.Struct, frozen=True):
    """One policy rule. ``on`` guards it cheaply before ``when`` is evaluated; no ``when`` means true.

    ``attempts`` is the total number of calls (semantics.md 18); ``multiplier`` is the exponential factor.
    ``patch`` replaces parts of the call's config before ``again`` (next_call), ``rebind`` names of its input.
    A retry with ``wait_for`` waits for that signal, at most ``timeout`` seconds, and not for a delay.
    ``result`` replaces the result of a call that went well, ``message`` tells why the rule fails the task.
    """

    do: Action
    span: Span
    on: OnStatus = "any"
    when: Template | None = None
    attempts: Value | None = None
    backoff: Backoff = "none"
    multiplier: float = MULTIPLIER
    delay: Value | None = None
    max_delay: Value | None = None
    jitter: bool = False
    to: str | None = None
    set: tuple[Assign, ...] = ()
    patch: Value | None = None
    rebind: Value | None = None
    collect: Collect | None = None
    result: Value | None = None
    message: Value | None = None
    wait_for: str | None = None
    timeout: Value | None = None


class Circuit(msgspec.Struct, frozen=True):
    """After so many ``failures`` within ``window`` seconds calls fail at once; ``probe`` seconds later one may try
    whether the other side is well again (semantics.md 22b). Without a window the failures are those in a row; without
    a probe calls fail for the rest of the run or loop.
    """

    failures: Value
    span: Span
    window: Value | None = None
    probe: Value | None = None


class Policy(msgspec.Struct, frozen=True):
    """First matching rule wins. ``unmatched`` decides an error that no rule covers (semantics.md 17)."""

    rules: tuple[Rule, ...] = ()
    unmatched: Unmatched = "continue"
    circuit: Circuit | None = None


class Select(msgspec.Struct, frozen=True):
    """Part of a result under a name of its own. ``path`` is dotted from the result on: ``choices.0.message``."""

    name: str
    path: str


class Output(msgspec.Struct, frozen=True):
    """Which parts of a result have names of their own, and the author's wishes for where the whole is kept.

    Where it is kept changes nothing that a template can see: ``store`` ({kind, scope, ttl, ...}) and the sizes in bytes
    are said for those who run their own stores.
    """

    span: Span
    select: tuple[Select, ...] = ()
    store: Value = Value({})
    inline_max_bytes: Value | None = None
    preview_max_bytes: Value | None = None


class Sink(msgspec.Struct, frozen=True):
    """Where a result is stored.

    ``level`` ``attempt``: in the tool's own activity, once a call (so once a page). ``task``: once, after the last
    page, with the collected result. ``guard`` is asked with the outcome of the call.
    """

    kind: str
    config: Value
    span: Span
    auth: Value | None = None
    mode: SinkMode = "insert"
    level: SinkLevel = "attempt"
    guard: Guard | None = None


class Splice(msgspec.Struct, frozen=True):
    """A template in Python code, from character ``start`` to ``end`` of the ``field`` of the config. The literal of its
    ``value`` takes its place (semantics.md 13a).
    """

    field: str
    start: int
    end: int
    value: Value


class Task(msgspec.Struct, frozen=True):
    """One tool call of a pipeline. ``input`` binds names the tool's code and templates may use.

    ``given`` are those that its surroundings bind, a step or the call of a workbook task: rendered first, and seen by
    the templates of ``input``, which lies over them.

    ``queue`` is symbolic (the tool kind) and resolved at submission. ``set`` is applied after a successful call,
    before the policy's action.

    A task with a ``guard`` is an aside: it runs after the step's own tasks where the guard allows it, even after their
    failure; it sees their outcome under the names a rule sees, and its result is not the step's.

    ``idempotency_key`` names the header in which an HTTP call sends its key, the same with all of its attempts.

    ``code`` is where Python code or SQL stands; it has as many lines as its text where those are lines of the YAML.
    """

    label: str
    kind: str
    queue: str
    span: Span
    config: Value = Value()
    given: Value = Value({})
    input: Value = Value({})
    auth: Value | None = None
    timeout: Timeout | None = None
    policy: Policy | None = None
    sinks: tuple[Sink, ...] = ()
    set: tuple[Assign, ...] = ()
    idempotent: bool = True
    idempotency_key: str | None = None
    guard: Guard | None = None
    output: Output | None = None
    splices: tuple[Splice, ...] = ()
    code: Span | None = None
