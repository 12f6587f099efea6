"""Tasks: calls of tools with their input, their policy, and where their results are stored."""

from __future__ import annotations

import msgspec

from noetl_compiler.graph.values import Assign, Json, Span, Template, Timeout, Value
from noetl_compiler.language.defaults import COLLECTED_AS, MULTIPLIER
from noetl_compiler.language.words import Action, Backoff, OnStatus, SinkLevel, SinkMode, Strategy, Unmatched

__all__ = ["Circuit", "Collect", "Guard", "Output", "Policy", "Rule", "Select", "Sink", "Splice", "Task"]


class Collect(msgspec.Struct, frozen=True):
    """How the results of one task's repeated calls become one result.

    ``append`` extends the list with the items at ``path``, ``collect`` appends the value itself, ``merge`` deep-merges
    mappings, ``replace`` keeps the last. ``into`` names the running value in templates.
    """

    strategy: Strategy = "append"
    path: str = ""
    into: str = COLLECTED_AS


class Guard(msgspec.Struct, frozen=True):
    """A condition: true after the outcome ``on_status`` if ``when`` holds (None: always) and no ``unless`` does.

    A condition with an undefined name does not hold, in ``unless`` too (dev/decisions/0011).
    """

    on_status: OnStatus = "ok"
    when: Template | None = None
    unless: tuple[Template, ...] = ()


class Rule(msgspec.Struct, frozen=True):
    """One policy rule: what is done after an outcome. ``on_status`` is checked before ``when`` is evaluated, as that is
    cheaper; no ``when`` means true.

    ``attempts`` is the total number of calls (semantics.md 18); ``multiplier`` is the exponential factor.
    Before the action ``again`` repeats the call, ``patch`` (``next_call``) replaces parts of its config, and ``rebind``
    names of its input.
    A retry with ``wait_for`` waits for that signal instead of a delay, at most ``timeout`` seconds.
    ``result`` replaces the result of a successful call, ``message`` says why the rule fails the task.
    """

    do: Action
    span: Span
    on_status: OnStatus = "any"
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
    """A circuit breaker: after this number of ``failures`` within ``window`` seconds, calls fail immediately. After
    ``probe`` seconds, one call tests whether the service has recovered (semantics.md 22b). Without a window,
    consecutive failures count; without a probe, calls fail for the rest of the run or loop.
    """

    failures: Value
    span: Span
    window: Value | None = None
    probe: Value | None = None


class Policy(msgspec.Struct, frozen=True):
    """What follows a call: the first matching rule applies, and ``unmatched`` to errors that no rule matches
    (semantics.md 17).

    ``retry_clause`` is the ``retry`` of the playbook from which the rules were read, for the log; None if the playbook
    has rules.
    """

    rules: tuple[Rule, ...] = ()
    unmatched: Unmatched = "continue"
    circuit: Circuit | None = None
    retry_clause: Json = None


class Select(msgspec.Struct, frozen=True):
    """A named part of a result. ``path`` is dotted, relative to the result: ``choices.0.message``."""

    name: str
    path: str


class Output(msgspec.Struct, frozen=True):
    """The named parts of a result, and hints for where to store it.

    The hints do not change what templates see: ``store`` ({kind, scope, ttl, ...}) and the sizes in bytes are for other
    engines.
    """

    span: Span
    select: tuple[Select, ...] = ()
    store: Value = Value({})
    inline_max_bytes: Value | None = None
    preview_max_bytes: Value | None = None


class Sink(msgspec.Struct, frozen=True):
    """Where a result is stored.

    ``level`` ``attempt``: in the activity of the tool, once per call (so once per page). ``task``: once, after the last
    page, with the collected result. ``guard`` is evaluated with the outcome of the call.
    """

    kind: str
    config: Value
    span: Span
    auth: Value | None = None
    mode: SinkMode = "insert"
    level: SinkLevel = "attempt"
    guard: Guard | None = None


class Splice(msgspec.Struct, frozen=True):
    """A template in Python code, from character ``start`` to ``end`` of a ``field`` of the config. It is replaced by
    the Python literal of its ``value`` (semantics.md 13a).
    """

    field: str
    start: int
    end: int
    value: Value


class Task(msgspec.Struct, frozen=True):
    """A task of a step: a call of a tool. ``input`` binds names for the code and templates of the tool.

    ``inherited_input`` has the names that the step binds, and those that a step binds when it calls a workbook task.
    They are rendered first; the templates of ``input``, which overrides them, see them.

    ``queue`` is symbolic (the tool kind) and resolved at submission. ``set`` is applied after a successful call,
    before the policy's action.

    A task with a ``guard`` runs after the tasks of its step if the guard allows it, even after their failure. It sees
    their outcome under the same names as a rule, and its result is not the result of the step.

    ``idempotency_key`` names the header that carries the key of an HTTP call, which is the same in all its attempts.

    ``code`` is the span of Python code or SQL; lines of errors in the code are lines of the YAML if the span has as
    many lines as the code.
    """

    label: str
    kind: str
    queue: str
    span: Span
    config: Value = Value()
    inherited_input: Value = Value({})
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
