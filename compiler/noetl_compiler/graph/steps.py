"""Steps: their admission, loop, tasks and arcs."""

from __future__ import annotations

import msgspec

from noetl_compiler.graph.calls import Guard, Task
from noetl_compiler.graph.values import Assign, Span, Template, Timeout, Value
from noetl_compiler.language.words import (
    BranchFailure,
    ItemError,
    Join,
    LoopFailure,
    LoopMode,
    NoMatch,
    OnStatus,
    RouteMode,
    RowError,
    RowProcess,
)

__all__ = ["AdmitRule", "Arc", "Cursor", "EnterRule", "FinalStatus", "Frame", "Hold", "Loop", "Route", "Step"]


class Cursor(msgspec.Struct, frozen=True):
    """A loop source that claims rows until none is left (semantics.md 24).

    ``claim``, ``renew``, ``ack`` and ``release`` are tasks of the database tool, which lowering makes from ``config``
    and ``auth``; a lowered cursor has neither. ``attempts`` is how often a row has been claimed, read from the row.
    Durations are in seconds.
    """

    kind: str
    span: Span
    config: Value = Value({})
    auth: Value | None = None
    claim: Task | None = None
    renew: Task | None = None
    ack: Task | None = None
    release: Task | None = None
    process: RowProcess = "row"
    on_row_error: RowError = "ack"
    attempts: Value | None = None
    max_attempts: Value | None = None
    max_rows: Value | None = None
    row_concurrency: Value | None = None
    lease_seconds: Value | None = None
    heartbeat_seconds: Value | None = None

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks of its statements."""
        return tuple(task for task in (self.claim, self.renew, self.ack, self.release) if task is not None)


class Frame(msgspec.Struct, frozen=True):
    """The limits of a frame, the items of a loop that run in one activity (semantics.md 22d)."""

    span: Span
    max_rows: Value | None = None
    max_seconds: Value | None = None
    max_bytes: Value | None = None
    row_concurrency: Value | None = None


class Loop(msgspec.Struct, frozen=True):
    """Iterations over a collection or a cursor; ``element`` is the name of the item in templates. The body is the
    tasks of the step, or the steps in ``region``.

    Each iteration enters the region by ``entry_route`` and ends when all its branches have ended. Branches end at
    ``end``, the last step of the region, as those of the playbook do at the final step. The result of an iteration maps
    each step to its last result, and ``end`` to a list with one result per arrival (dev/decisions/0010).

    If the step has tasks, an item takes ``entry_route`` when its tasks have ended. Then there is no ``end``: branches
    end at the final step, which the region does not contain, and the result of an iteration is that of its tasks
    (dev/decisions/0067).

    ``on_error`` says what a failed iteration means for the others, ``failure`` what it means for the step.
    """

    element: str
    span: Span
    collection: Value | None = None
    cursor: Cursor | None = None
    mode: LoopMode = "sequential"
    max_in_flight: Value | None = None
    chunk_size: Value | None = None
    limit: Value | None = None
    where: Template | None = None
    order_by: Template | None = None
    on_error: ItemError = "continue"
    failure: LoopFailure = "fail"
    frame: Frame | None = None
    region: tuple[str, ...] = ()
    entry_route: Route | None = None
    end: str = ""

    @property
    def is_parallel(self) -> bool:
        """Whether several iterations may run at once. Those of chunks do if ``max_in_flight`` is set."""
        return self.mode == "parallel" or (self.mode == "chunked" and self.max_in_flight is not None)

    @property
    def is_chunked(self) -> bool:
        """Whether an iteration takes several items, as a list."""
        return self.mode == "chunked" or self.chunk_size is not None


class Arc(msgspec.Struct, frozen=True):
    """An arc to a step, followed after the outcome ``on_status`` if ``when`` holds (semantics.md 4, 8); no ``when``
    means true.
    """

    target: str
    span: Span
    on_status: OnStatus = "ok"
    when: Template | None = None
    set: tuple[Assign, ...] = ()


class Route(msgspec.Struct, frozen=True):
    """The arcs of a step, and which of them are followed. ``exclusive``: the first that matches, in the order of the
    YAML; ``inclusive``: all that match.
    """

    mode: RouteMode = "exclusive"
    on_no_match: NoMatch = "end"
    arcs: tuple[Arc, ...] = ()


class AdmitRule(msgspec.Struct, frozen=True):
    """Whether a step may start. The first matching rule applies; without one the step starts (semantics.md 10)."""

    allow: bool
    span: Span
    when: Template | None = None


class EnterRule(msgspec.Struct, frozen=True):
    """The names that a step sets on entry, before its loop or its first task."""

    set: tuple[Assign, ...]
    span: Span
    guard: Guard | None = None


class Hold(msgspec.Struct, frozen=True):
    """After a failure, the step waits for a decision of a person, at most ``seconds`` (semantics.md 42)."""

    seconds: Value
    span: Span


class FinalStatus(msgspec.Struct, frozen=True):
    """How the run ends if it is not stopped: one of RUN_RESULTS, or a template that yields one (semantics.md 35)."""

    value: Value
    span: Span


class Step(msgspec.Struct, frozen=True):
    """A node of the graph. Without tasks it only routes. ``args`` has the names that it binds for all its tasks, the
    ``input`` of the step.

    ``branch_failure`` says what an unhandled failure of the step means for other branches; None: the default of the
    graph. ``status`` of the final step is how the run ends (semantics.md 35).
    """

    name: str
    span: Span
    desc: str = ""
    injected: bool = False
    admit: tuple[AdmitRule, ...] = ()
    join: Join = "wave"
    args: Value = Value({})
    loop: Loop | None = None
    tasks: tuple[Task, ...] = ()
    set: tuple[Assign, ...] = ()
    result: Value | None = None
    route: Route = Route()
    timeout: Timeout | None = None
    hold: Hold | None = None
    status: FinalStatus | msgspec.UnsetType = msgspec.UNSET
    enter: tuple[EnterRule, ...] = ()
    branch_failure: BranchFailure | None = None

    @property
    def all_tasks(self) -> tuple[Task, ...]:
        """The tasks of the step, after those of its cursor."""
        cursor = self.loop.cursor if self.loop is not None else None
        return self.tasks if cursor is None else (*cursor.tasks, *self.tasks)

    @property
    def is_synthetic(self) -> bool:
        """Whether the compiler added the step and it calls nothing, such as an injected ``end``."""
        return self.injected and not self.tasks
