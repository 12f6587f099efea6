"""The options of a worker: its grace period, its build, and the limits of its concurrent calls."""

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
"""The default grace period for calls in progress when a worker stops."""

SLOTS = 100
"""The default number of concurrent calls of a tool."""

MAX_SLOTS = 500
"""The default maximum number of concurrent calls of a tool if their number depends on the load of the machine."""

_WORKFLOW_TASKS = 100
"""The number of concurrent workflow tasks, and of concurrent local activities: the SDK's default."""

_TARGETS = ResourceBasedTunerConfig(target_memory_usage=0.8, target_cpu_usage=0.9)
"""The load of the machine, or of its container, up to which a worker accepts further calls."""

_MIN_SLOTS = 5
"""The number of calls that a worker accepts whatever the load: other processes may load the machine for hours."""

_RAMP_DELAY = timedelta(milliseconds=10)
"""The time between two further calls, so that the load of the first one is measured."""


@dataclass(frozen=True)
class WorkerOptions:
    """The options of a worker.

    ``grace`` is the time in which calls can end when the worker stops. A worker with a ``build`` (versioning.py) serves
    only runs of this build. ``interceptors`` are added to those that every worker has.

    ``at_once`` is the number of concurrent calls of this worker, by kind of tool. ``per_second`` is the number of calls
    that all workers of the tool's own queue together start per second, by kind. With ``autoscales`` the number of
    pollers depends on the load. With ``slots_by_load`` the worker accepts calls while memory and processors are free,
    up to ``at_once``.
    """

    grace: timedelta = GRACE
    build: WorkerDeploymentConfig | None = None
    interceptors: Sequence[Interceptor] = ()
    at_once: Mapping[str, int] = field(default_factory=dict[str, int])
    per_second: Mapping[str, float] = field(default_factory=dict[str, float])
    autoscales: bool = False
    slots_by_load: bool = False

    def arguments(self, kinds: Iterable[str]) -> dict[str, Any]:
        """Return the arguments of temporalio.worker.Worker for a queue with calls of these kinds of tools."""
        pollers = {"activity_task_poller_behavior": PollerBehaviorAutoscaling()} if self.autoscales else {}
        common = {"graceful_shutdown_timeout": self.grace, "deployment_config": self.build}
        return {**common, "tuner": self._tuner(list(kinds)), **pollers}

    def arguments_of_tool(self, kind: str) -> dict[str, Any]:
        """Return the arguments of temporalio.worker.Worker for the own queue of a kind of tool."""
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
