"""The arguments of a playbook workflow, and what it returns: JSON in history, read by the mirror by key."""

from __future__ import annotations

import msgspec

from noetl_compiler.graph import Graph, Json
from noetl_compiler.graph.pinned import NO_CALLS, PinnedCalls
from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine.call import StoredRef
from noetl_temporal.machine.facts import Earlier
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.packed_trail import PackedTrail
from noetl_temporal.shared_part import SharedPart

__all__ = ["Playbook", "RunInput", "RunReport"]


class Playbook(SharedPart, frozen=True, omit_defaults=True):
    """The second argument of a playbook workflow. ``content`` is the playbook's text, for the catalog. ``calls`` are
    the playbooks that it, or a playbook it calls, may call."""

    graph: Graph
    content: str
    calls: PinnedCalls = NO_CALLS


class RunInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request for a run. ``execution_id`` is 0 in the input of a ``schedule``, which all its runs share: each makes
    its own. ``path``, ``version`` and ``digest``, the graph's, name the playbook. ``queues`` maps a symbolic queue to a
    real one; a queue not named there is ``noetl-<kind>``. ``limit`` is the bytes that a value may have. A called
    run has the ``parent_execution_id`` of its caller, is one deeper than it (``depth``), and returns the result of its
    ``return_step``, if there is one. A ``rerun`` continues from the state of an earlier run. Large lists of
    the ``payload`` are stored: they are null there, and references in ``kept``. ``state``,
    ``trail`` and ``after``, the millisecond above which all ids of this run are, are set by continue-as-new only."""

    execution_id: int
    path: str
    version: str
    digest: str
    payload: dict[str, Json] = {}
    queues: dict[str, str] = {}
    parent_execution_id: int | None = None
    depth: int = 0
    return_step: str = ""
    limit: int = INLINE_BYTES
    schedule: str = ""
    rerun: Earlier | None = None
    state: Json = None
    trail: PackedTrail | None = None
    after: int = 0
    kept: dict[str, StoredRef] = {}


class RunReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The workflow's result; in the details of the failure when the playbook failed.

    ``started`` is when the first run began, milliseconds since the epoch, 0 where it is not known. ``trail`` has the
    events that no later command could carry. A rerun repeats the execution ``rerun_of`` from the step ``rerun_from``
    on."""

    status: str
    execution_id: int
    result: Json = None
    failures: FailureLog = FailureLog()
    steps: dict[str, dict[str, Json]] = {}
    started: int = 0
    trail: PackedTrail | None = None
    rerun_of: int = 0
    rerun_from: str = ""
