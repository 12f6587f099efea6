"""The arguments and the result of a playbook workflow: JSON in history, which the mirror reads by key."""

from __future__ import annotations

import msgspec

from noetl_compiler.graph import Graph, Json
from noetl_compiler.graph.pinned import NO_CALLS, PinnedCalls
from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine.call import StoredRef
from noetl_temporal.machine.facts import RerunSource
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.messages.packed_trail import PackedTrail
from noetl_temporal.messages.shared_part import SharedPart

__all__ = ["Playbook", "RunInput", "RunReport"]


class Playbook(SharedPart, frozen=True, omit_defaults=True):
    """The second argument of a playbook workflow. ``content`` is the playbook's text, for the catalog. ``calls`` has
    the playbooks that may be called, directly or by called playbooks.
    """

    graph: Graph
    content: str
    calls: PinnedCalls = NO_CALLS


class RunInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first argument of a playbook workflow.

    - ``execution_id`` is 0 in the input of a ``schedule``, which all its runs share: each makes an id of its own.
    - ``path``, ``version`` and ``digest`` are those of the graph.
    - ``queues`` maps symbolic queues to task queues; any other symbolic queue means ``noetl-<kind>``.
    - ``limit`` is the maximum size of a value in bytes.
    - A called run has the ``parent_execution_id`` of its caller and a ``depth`` of one more, and returns the result of
      its ``return_step``, if there is one.
    - A ``rerun`` continues from the state of an earlier run.
    - Large lists of the ``payload`` are stored: they are null there, and ``stored_payload`` has their
      references by JSON pointer.
    - ``state``, ``trail`` and ``after`` are set only by continue-as-new. All ids of this run are above the millisecond
      ``after``.
    """

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
    rerun: RerunSource | None = None
    state: Json = None
    trail: PackedTrail | None = None
    after: int = 0
    stored_payload: dict[str, StoredRef] = {}


class RunReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a playbook workflow; if the playbook failed, it is in the details of the failure.

    ``started`` is the time at which the first run began, in milliseconds since the epoch, 0 if that is not known.
    ``trail`` has the events that were emitted after the last command. A rerun repeats the execution ``rerun_of`` from
    the step ``rerun_from`` on.
    """

    status: str
    execution_id: int
    result: Json = None
    failures: FailureLog = FailureLog()
    steps: dict[str, dict[str, Json]] = {}
    started: int = 0
    trail: PackedTrail | None = None
    rerun_of: int = 0
    rerun_from: str = ""
