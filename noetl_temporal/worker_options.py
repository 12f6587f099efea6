"""How a worker serves its queues: how long calls may end, for which build, and how many calls at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio.worker import Interceptor, PollerBehaviorAutoscaling, WorkerDeploymentConfig

__all__ = ["GRACE", "SLOTS", "WorkerOptions"]

GRACE = timedelta(seconds=10)
"""The grace period for calls in progress when a temporary worker stops."""

SLOTS = 100
"""Calls of a tool that a worker takes at once."""


@dataclass(frozen=True)
class WorkerOptions:
    """``grace`` is the time that calls have to end when the worker stops. A ``build`` (versioning.py) serves its own
    runs alone. ``interceptors`` are added to those that every worker has.

    ``at_once`` are the calls that this worker takes at once, by kind of tool. ``per_second`` are those that all workers
    of the tool's own queue start together, by kind. With ``autoscales`` the number of pollers follows the load.
    """

    grace: timedelta = GRACE
    build: WorkerDeploymentConfig | None = None
    interceptors: Sequence[Interceptor] = ()
    at_once: Mapping[str, int] = field(default_factory=dict[str, int])
    per_second: Mapping[str, float] = field(default_factory=dict[str, float])
    autoscales: bool = False

    def arguments(self) -> dict[str, Any]:
        """Arguments of temporalio.worker.Worker for any queue."""
        pollers = {"activity_task_poller_behavior": PollerBehaviorAutoscaling()} if self.autoscales else {}
        return {"graceful_shutdown_timeout": self.grace, "deployment_config": self.build, **pollers}

    def arguments_of_tool(self, kind: str) -> dict[str, Any]:
        """The same for the own queue of a kind of tool."""
        rate = self.per_second.get(kind)
        return {
            **self.arguments(),
            "max_concurrent_activities": self.at_once.get(kind, SLOTS),
            **({} if rate is None else {"max_task_queue_activities_per_second": rate}),
        }
