"""The common syntax tree of all dialects.

It has the same structs for all dialects. Names are unresolved and defaults are absent: ``None`` means that the author
wrote nothing, and lowering fills in the default. Parts that need no further conversion (values with their
templates, retry rules, loops, sinks) are already structs of the graph.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from noetl_compiler import graph
from noetl_compiler.graph import (
    AdmitRule,
    Assign,
    Circuit,
    EnterRule,
    FinalStatus,
    Guard,
    Json,
    KeychainEntry,
    Output,
    Priority,
    Sink,
    Span,
    Splice,
    Template,
    Timeout,
    Value,
)
from noetl_compiler.language.words import (
    BranchFailure,
    Dialect,
    FailureAction,
    Join,
    NoMatch,
    OnStatus,
    RouteMode,
    Unmatched,
)
from noetl_compiler.nodes import ScalarNode

__all__ = [
    "EMPTY_MAPPING",
    "NO_DEFAULTS",
    "Arc",
    "CallDefaults",
    "ForeignText",
    "Loop",
    "Name",
    "Next",
    "OnFailure",
    "Playbook",
    "Policy",
    "Reducer",
    "Rule",
    "Step",
    "Task",
]

EMPTY_MAPPING = Value({})


class Name(msgspec.Struct, frozen=True):
    """A name with its span: the definition of a step or task, or a reference to one."""

    text: str
    span: Span


class Rule(msgspec.Struct, frozen=True):
    """A policy rule. ``to`` is the label of the task that it jumps to; lowering copies it to ``body.to``."""

    body: graph.Rule
    to: Name | None = None


class Policy(msgspec.Struct, frozen=True):
    """The rules of one task. ``unmatched`` is the action after an error that no rule matches. ``retry_clause`` is the
    ``retry`` from which the rules were read, as written.
    """

    span: Span
    rules: tuple[Rule, ...] = ()
    unmatched: Unmatched | None = None
    circuit: Circuit | None = None
    retry_clause: Json = None


class ForeignText(msgspec.Struct, frozen=True):
    """Code or SQL in the field ``field`` of a tool."""

    field: str
    node: ScalarNode


class Task(msgspec.Struct, frozen=True):
    """One tool call.

    ``workbook`` names the workbook task that it calls; the fields of this task take precedence over those of the called
    one. ``expects`` are the names that its author declared as bound for it. ``on_timeout`` is the step that follows if
    the task is a wait and times out; dialects/waits.py converts it to a route. ``texts`` are the code and SQL in
    ``config``, and ``splices`` are the templates in Python code among them. ``code`` is that of graph.Task.
    """

    label: Name
    kind: Name
    span: Span
    config: Value = EMPTY_MAPPING
    input: Value = EMPTY_MAPPING
    auth: Value | None = None
    timeout: Timeout | None = None
    policy: Policy | None = None
    sinks: tuple[Sink, ...] = ()
    set: tuple[Assign, ...] = ()
    idempotent: bool | None = None
    idempotency_key: Name | None = None
    workbook: Name | None = None
    guard: Guard | None = None
    expects: tuple[Name, ...] = ()
    output: Output | None = None
    on_timeout: Name | None = None
    texts: tuple[ForeignText, ...] = ()
    splices: tuple[Splice, ...] = ()
    code: Span | None = None


class CallDefaults(msgspec.Struct, frozen=True):
    """Defaults for the calls of a task, from the specs of its loop, its step and the executor."""

    policy: Policy | None = None
    timeout: Timeout | None = None
    idempotent: bool | None = None
    output: Output | None = None
    idempotency_key: Name | None = None


NO_DEFAULTS = CallDefaults()


class Reducer(NamedTuple):
    """Combines the values that the iterations of a loop set under a name. ``operator`` is the suffix of the target, as
    in graph.Assign.
    """

    name: Name
    target: str
    operator: str


class Loop(msgspec.Struct, frozen=True):
    """The loop of a step, as the author wrote it.

    Lowering fills in the mode, limits and region of ``body``. ``timeout`` is that of the whole loop. ``defaults`` and
    ``reducers`` are already applied to the tasks of the step. ``collection_span`` is the span of the collection or the
    cursor. ``next`` has the routes of each item, which are followed when the tasks of the step have ended for it.
    """

    body: graph.Loop
    element: Name
    collection_span: Span
    timeout: Timeout | None = None
    defaults: CallDefaults = NO_DEFAULTS
    reducers: tuple[Reducer, ...] = ()
    next: Next | None = None


class Arc(msgspec.Struct, frozen=True):
    """A route to a step. ``args`` are bound as names in that step. If ``on`` is None, it is derived from the names that
    ``when`` reads (templating/default_on_status.py).
    """

    target: Name
    span: Span
    when: Template | None = None
    set: tuple[Assign, ...] = ()
    args: Value = EMPTY_MAPPING
    on_status: OnStatus | None = None

    @property
    def is_conditional(self) -> bool:
        """Whether it depends on more than the outcome of the step."""
        return self.when is not None


class Next(msgspec.Struct, frozen=True):
    """The routes from a step, in groups: the arcs of a group are followed together.

    In the mode ``exclusive``, the first group whose ``when`` matches is followed, in the mode ``inclusive`` all that
    match. A v10 arc is a group of its own, a legacy ``then`` list is one group.
    """

    span: Span
    mode: RouteMode
    groups: tuple[tuple[Arc, ...], ...] = ()
    on_no_match: NoMatch | None = None


class OnFailure(msgspec.Struct, frozen=True):
    """The action after a step has failed. ``seconds`` is the maximum time for which it is held."""

    action: FailureAction
    span: Span
    seconds: Value | None = None


class Step(msgspec.Struct, frozen=True):
    """A step of the workflow. ``next`` is None if the author named no next step.

    ``ended_loop`` names the loop whose region this step ends. ``sinks`` store the results of the step's loop as a
    whole. ``defaults`` are the step's defaults for its tasks, to which they are already applied
    (dialects/spec_defaults.py). ``status`` is the status of the run; only the final step may have it.
    """

    name: Name
    span: Span
    desc: str = ""
    admit: tuple[AdmitRule, ...] = ()
    join: Join | None = None
    args: Value = EMPTY_MAPPING
    loop: Loop | None = None
    tasks: tuple[Task, ...] = ()
    set: tuple[Assign, ...] = ()
    result: Value | None = None
    next: Next | None = None
    timeout: Timeout | None = None
    ended_loop: Name | None = None
    sinks: tuple[Sink, ...] = ()
    on_failure: OnFailure | None = None
    status: FinalStatus | None = None
    enter: tuple[EnterRule, ...] = ()
    branch_failure: BranchFailure | None = None
    defaults: CallDefaults = NO_DEFAULTS

    @property
    def item_routes(self) -> Next | None:
        """The routes of each item of its loop."""
        return self.loop.next if self.loop is not None else None

    @property
    def has_loop_outcome(self) -> bool:
        """Whether its arcs follow the outcome of a whole loop: its own, or the one that it ends."""
        return self.loop is not None or self.ended_loop is not None


class Playbook(msgspec.Struct, frozen=True):
    """A whole playbook, as read by the front end of its dialect.

    ``dialect`` determines the names that templates see and the defaults. It may differ from the dialect of the syntax:
    a migrated playbook has the syntax of v10, and declares the dialect from which it was migrated.
    """

    dialect: Dialect
    span: Span
    name: str
    path: str
    version: str
    steps: tuple[Step, ...] = ()
    workbook: tuple[Task, ...] = ()
    workload: Value = EMPTY_MAPPING
    keychain: tuple[KeychainEntry, ...] = ()
    entry: Name | None = None
    final: Name | None = None
    no_next_is_error: bool = False
    branch_failure: BranchFailure | None = None
    on_failure: OnFailure | None = None
    timeout: Timeout | None = None
    priority: Priority | None = None
