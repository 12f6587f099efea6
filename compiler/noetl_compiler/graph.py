"""The graph: what every dialect lowers to, and all that a run needs.

A graph is self-contained, frozen and content-addressed. Lowering builds it, the machine interprets it,
previews draw it. It names no Temporal concept but the symbolic queue of each task (architecture.md 3).

Templates are not a node type of their own inside configuration: a :class:`Value` is plain JSON plus a table
``templates`` from JSON pointer (RFC 6901, ``""`` is the root) to the span of the string standing there. A string
is a template if and only if its pointer is in that table, so Python code with ``{{`` in it stays code.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal, TypeAlias

import msgspec

__all__ = [
    "VERSION",
    "Action",
    "AdmitRule",
    "Arc",
    "Assign",
    "Circuit",
    "Collect",
    "Cursor",
    "EnterRule",
    "Graph",
    "Guard",
    "Json",
    "KeychainEntry",
    "Loop",
    "Output",
    "Policy",
    "Route",
    "Rule",
    "Select",
    "Sink",
    "SourceRef",
    "Span",
    "Step",
    "Task",
    "Template",
    "Timeout",
    "UnknownGraphVersionError",
    "Value",
    "decode",
    "encode",
    "seal",
]

VERSION = 1
"""Raised whenever the meaning of a stored graph changes; a run refuses a graph of another version."""

Json: TypeAlias = Any
"""A JSON value. msgspec cannot express the recursive type (dev/decisions/0002)."""

Action: TypeAlias = Literal["continue", "retry", "again", "jump", "break", "fail"]


class Span(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A place in the playbook's text: 1-based lines and columns, the end exclusive."""

    line: int
    col: int
    end_line: int
    end_col: int


class Template(msgspec.Struct, frozen=True):
    """A Jinja2 source with its place: ``"{{ a == 1 }}"``."""

    source: str
    span: Span


class Value(msgspec.Struct, frozen=True):
    """JSON with templates at the pointers listed in ``templates``."""

    data: Json = None
    templates: dict[str, Span] = {}


class Assign(msgspec.Struct, frozen=True):
    """One ``set`` entry: ``target`` is dotted and always rooted (``ctx.a.b``, ``iter.x``).

    ``ctx.a[]`` adds the value to the list there, ``ctx.a[*]`` each item of the value, ``ctx.a[+]`` adds to the number
    there, ``ctx.a[|]`` merges into the map there: parallel iterations add in their order, where one that sets the whole
    would overwrite the others' (semantics.md 16).
    """

    target: str
    value: Value
    span: Span


class Timeout(msgspec.Struct, frozen=True):
    """Seconds, each a number or a template that yields one (semantics.md 21)."""

    total: Value | None = None
    connect: Value | None = None
    read: Value | None = None


class Collect(msgspec.Struct, frozen=True):
    """How the results of one task's repeated calls become one result.

    ``append`` extends the list with the items at ``path``, ``collect`` appends the value itself, ``merge`` deep-merges
    maps, ``replace`` keeps the last. ``into`` names the running value in templates.
    """

    strategy: Literal["append", "replace", "collect", "merge"] = "append"
    path: str = ""
    into: str = "pages"


class Guard(msgspec.Struct, frozen=True):
    """In which cases something is done: at this boundary, when ``when`` holds (none: always) and no ``unless`` does.

    An undefined name makes a predicate not hold, in ``unless`` as well (dev/decisions/0011).
    """

    on: Literal["any", "ok", "error"] = "ok"
    when: Template | None = None
    unless: tuple[Template, ...] = ()


class Rule(msgspec.Struct, frozen=True):
    """One policy rule. ``on`` guards it cheaply before ``when`` is evaluated; no ``when`` means true.

    ``attempts`` is the total number of calls (semantics.md 18); ``multiplier`` is the exponential factor.
    ``patch`` replaces parts of the call's config before ``again`` (next_call), ``rebind`` names of its input.
    ``result`` replaces the result of a call that went well, ``message`` tells why the rule fails the task.
    """

    do: Action
    span: Span
    on: Literal["any", "ok", "error"] = "any"
    when: Template | None = None
    attempts: Value | None = None
    backoff: Literal["none", "linear", "exponential"] = "none"
    multiplier: float = 2.0
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


class Circuit(msgspec.Struct, frozen=True):
    """After so many ``failures`` within ``window`` seconds calls fail at once; ``probe`` seconds later one may try
    whether the other side is well again (semantics.md 22b). None: as the run sees fit.
    """

    failures: Value
    span: Span
    window: Value | None = None
    probe: Value | None = None


class Policy(msgspec.Struct, frozen=True):
    """First matching rule wins. ``unmatched`` decides an error that no rule covers (semantics.md 17)."""

    rules: tuple[Rule, ...] = ()
    unmatched: Literal["continue", "fail"] = "continue"
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
    mode: Literal["insert", "append", "upsert", "replace", "merge"] = "insert"
    level: Literal["attempt", "task"] = "attempt"
    guard: Guard | None = None


class Task(msgspec.Struct, frozen=True):
    """One tool call of a pipeline. ``input`` binds names the tool's code and templates may use.

    ``given`` are those that its surroundings bind, a step or the call of a workbook task: rendered first, and seen by
    the templates of ``input``, which lies over them.

    ``queue`` is symbolic (the tool kind) and resolved at submission. ``set`` is applied after a successful call,
    before the policy's action.

    A task with a ``guard`` is an aside: it runs after the step's own tasks where the guard allows it, even after their
    failure; it sees their outcome under the names a rule sees, and its result is not the step's.
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
    guard: Guard | None = None
    output: Output | None = None


class Cursor(msgspec.Struct, frozen=True):
    """A loop source that claims rows until none is left (semantics.md 24)."""

    kind: str
    config: Value
    span: Span
    auth: Value | None = None


class Loop(msgspec.Struct, frozen=True):
    """Iterations over a collection or a cursor. The body is the step's own tasks, or ``region``: steps of the graph.

    Each iteration takes the arcs of ``enter`` into the region and is over when no path in it lives. Paths end at
    ``end``, the region's own last step, as those of the playbook do at the final step. The result of an iteration is
    a map from step to its last result; under ``end`` a list of one result an arrival (dev/decisions/0010).
    """

    element: str
    span: Span
    collection: Value | None = None
    cursor: Cursor | None = None
    mode: Literal["sequential", "parallel", "chunked"] = "sequential"
    max_in_flight: Value | None = None
    chunk_size: Value | None = None
    limit: Value | None = None
    where: Template | None = None
    order_by: Template | None = None
    on_error: Literal["continue", "fail_fast"] = "continue"
    failure: Literal["fail", "best_effort"] = "fail"
    region: tuple[str, ...] = ()
    enter: Route | None = None
    end: str = ""


class Arc(msgspec.Struct, frozen=True):
    """A way on. ``on`` tells which boundary it can match (semantics.md 4, 8); no ``when`` means true."""

    to: str
    span: Span
    on: Literal["any", "ok", "error"] = "ok"
    when: Template | None = None
    set: tuple[Assign, ...] = ()


class Route(msgspec.Struct, frozen=True):
    """``exclusive``: the first matching arc in YAML order; ``inclusive``: all of them."""

    mode: Literal["exclusive", "inclusive"] = "exclusive"
    on_no_match: Literal["end", "complete", "quiet"] = "end"
    arcs: tuple[Arc, ...] = ()


class AdmitRule(msgspec.Struct, frozen=True):
    """Admission: first match wins, default allow (semantics.md 10)."""

    allow: bool
    span: Span
    when: Template | None = None


class EnterRule(msgspec.Struct, frozen=True):
    """What a step sets when it is entered, before its loop or its first task."""

    set: tuple[Assign, ...]
    span: Span
    guard: Guard | None = None


class Step(msgspec.Struct, frozen=True):
    """A node. Without tasks it only routes. ``args`` binds names for the whole step (``input``, ``with``).

    ``failure`` is what the step's own unhandled failure means for the other branches, None: as in the whole graph.
    """

    name: str
    span: Span
    desc: str = ""
    injected: bool = False
    admit: tuple[AdmitRule, ...] = ()
    join: Literal["wave", "any", "each"] = "wave"
    args: Value = Value({})
    loop: Loop | None = None
    tasks: tuple[Task, ...] = ()
    set: tuple[Assign, ...] = ()
    result: Value | None = None
    route: Route = Route()
    timeout: Timeout | None = None
    enter: tuple[EnterRule, ...] = ()
    failure: Literal["best_effort", "fail_fast"] | None = None


class KeychainEntry(msgspec.Struct, frozen=True):
    """A secret that templates call ``keychain.<name>``. ``config`` says where it is found, as its ``kind`` asks."""

    name: str
    kind: str
    span: Span
    config: Value = Value({})


class SourceRef(msgspec.Struct, frozen=True):
    """Where the graph came from. ``file`` is as the user gave it; ``path`` is the catalog path."""

    file: str
    path: str
    name: str
    version: str
    dialect: Literal["v1", "legacy", "case", "v10"]


class Graph(msgspec.Struct, frozen=True):
    """A compiled playbook. ``digest`` is the sha256 of its canonical JSON with an empty digest."""

    version: int
    digest: str
    source: SourceRef
    entry: str
    final: str
    steps: dict[str, Step]
    workload: Value = Value({})
    keychain: tuple[KeychainEntry, ...] = ()
    failure: Literal["best_effort", "fail_fast"] = "best_effort"
    timeout: Timeout | None = None


class UnknownGraphVersionError(ValueError):
    """This graph was compiled by another version: compile the playbook again."""


def encode(graph: Graph) -> bytes:
    """Canonical JSON: sorted keys, no spaces; the same graph gives the same bytes everywhere."""
    return msgspec.json.encode(graph, order="sorted")


def seal(graph: Graph) -> Graph:
    """The graph with its digest filled in."""
    unsealed = msgspec.structs.replace(graph, digest="")
    return msgspec.structs.replace(graph, digest=hashlib.sha256(encode(unsealed)).hexdigest())


def decode(data: bytes | str) -> Graph:
    """Read canonical JSON; :class:`UnknownGraphVersionError` for any other VERSION."""
    found = msgspec.json.decode(data, type=dict[str, Any]).get("version")
    if found != VERSION:
        raise UnknownGraphVersionError(f"graph version {found} is not {VERSION}: compile the playbook again")
    return msgspec.json.decode(data, type=Graph)
