"""How a worker serves its queues: how long calls may end, for which build, and how many calls at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio.worker import (
    FixedSizeSlotSupplier,
    Interceptor,
    PollerBehaviorAutoscaling,
    ResourceBasedSlotConfig,
    ResourceBasedSlotSupplier,
    ResourceBasedTunerConfig,
    WorkerDeploymentConfig,
    WorkerTuner,
)

__all__ = ["GRACE", "SLOTS", "WorkerOptions"]

GRACE = timedelta(seconds=10)
"""The grace period for calls in progress when a temporary worker stops."""

SLOTS = 100
"""Calls of a tool that a worker takes at once."""

MAX_SLOTS = 500
"""Calls of a tool that a worker takes at once if the limit depends on the resources of the machine."""

_WORKFLOW_TASKS = 100
"""Workflow tasks, and activities within them, that a worker handles at once: the SDK's own default."""

_TARGETS = ResourceBasedTunerConfig(target_memory_usage=0.8, target_cpu_usage=0.9)
"""Shares of the machine, or of its container, up to which a worker takes further calls."""

_MIN_SLOTS = 5
"""Calls that a worker takes however busy the machine is: it may be busy with something else for hours."""

_RAMP_DELAY = timedelta(milliseconds=10)
"""Time between two further calls, in which the load of the first can be seen."""


@dataclass(frozen=True)
class WorkerOptions:
    """Options of a worker.

    ``grace`` is the time that calls have to end when the worker stops. A ``build`` (versioning.py) serves its own
    runs alone. ``interceptors`` are added to those that every worker has.

    ``at_once`` are the calls that this worker takes at once, by kind of tool. ``per_second`` are those that all workers
    of the tool's own queue start together, by kind. With ``autoscales`` the number of pollers follows the load. With
    ``slots_by_load`` the worker takes calls as long as the machine has memory and processors left, ``at_once`` at most.
    """

    grace: timedelta = GRACE
    build: WorkerDeploymentConfig | None = None
    interceptors: Sequence[Interceptor] = ()
    at_once: Mapping[str, int] = field(default_factory=dict[str, int])
    per_second: Mapping[str, float] = field(default_factory=dict[str, float])
    autoscales: bool = False
    slots_by_load: bool = False

    def arguments(self, kinds: Iterable[str]) -> dict[str, Any]:
        """Arguments of temporalio.worker.Worker for a queue of tools of these kinds."""
        pollers = {"activity_task_poller_behavior": PollerBehaviorAutoscaling()} if self.autoscales else {}
        common = {"graceful_shutdown_timeout": self.grace, "deployment_config": self.build}
        return {**common, "tuner": self._tuner(list(kinds)), **pollers}

    def arguments_of_tool(self, kind: str) -> dict[str, Any]:
        """The arguments of a worker for the queue of a tool kind."""
        rate = self.per_second.get(kind)
        limit = {} if rate is None else {"max_task_queue_activities_per_second": rate}
        return {**self.arguments([kind]), **limit}

    def _tuner(self, kinds: Sequence[str]) -> WorkerTuner:
        default_slots = MAX_SLOTS if self.slots_by_load else SLOTS
        total_slots = sum(self.at_once.get(kind, default_slots) for kind in kinds) or SLOTS
        if self.slots_by_load:
            limits = ResourceBasedSlotConfig(min(_MIN_SLOTS, total_slots), total_slots, _RAMP_DELAY)
            calls: FixedSizeSlotSupplier | ResourceBasedSlotSupplier = ResourceBasedSlotSupplier(limits, _TARGETS)
        else:
            calls = FixedSizeSlotSupplier(total_slots)
        workflow_slots = FixedSizeSlotSupplier(_WORKFLOW_TASKS)
        return WorkerTuner.create_composite(
            workflow_supplier=workflow_slots,
            activity_supplier=calls,
            local_activity_supplier=workflow_slots,
            nexus_supplier=workflow_slots,
        )
