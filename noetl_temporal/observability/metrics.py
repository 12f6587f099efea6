"""The metrics of a worker. The exporter of Temporal's SDK serves them together with the SDK's own (health.py).

Calls are counted by the worker that runs them, with interceptors that only a worker with an exporter has. Runs are
counted by their workflow when it ends, with a meter that does nothing in a replay, so each is counted once. A frame
counts as one attempt, and not as a call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.common import MetricMeter
from temporalio.exceptions import ApplicationError
from temporalio.runtime import PrometheusConfig
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from noetl_temporal.calls.credential_check import CredentialNames
from noetl_temporal.machine.call import ToolReport
from noetl_temporal.messages.run_input import Playbook, RunReport
from noetl_temporal.mirror.path_labels import PathLabels
from noetl_temporal.naming import PLAYBOOK_CANCELLED, PLAYBOOK_WORKFLOW, tool_kind

__all__ = ["MetricsInterceptor", "exporter"]

CALLS = "noetl_calls"
RETRIES = "noetl_retries"
CALL_SECONDS = "noetl_attempt_seconds"
QUEUE_SECONDS = "noetl_queue_seconds"
RUNS = "noetl_runs"
RUN_SECONDS = "noetl_run_seconds"

_CALL_BUCKETS = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 600)
_RUN_BUCKETS = (0.1, 1, 10, 60, 600, 3600, 86_400)

_PATHS = PathLabels()
"""The labels of this process: each worker labels the paths that it sees first."""


def exporter(address: str) -> PrometheusConfig:
    """Return the configuration of the SDK's exporter, which listens on ``HOST:PORT``."""
    return PrometheusConfig(
        bind_address=address,
        counters_total_suffix=True,
        durations_as_seconds=True,
        histogram_bucket_overrides={
            CALL_SECONDS: _CALL_BUCKETS,
            QUEUE_SECONDS: _CALL_BUCKETS,
            RUN_SECONDS: _RUN_BUCKETS,
        },
    )


class MetricsInterceptor(Interceptor):
    """Counts calls with the ``meter`` of the process, and runs with that of their workflow."""

    def __init__(self, meter: MetricMeter) -> None:
        self._meters = _CallMeters(meter)

    def intercept_activity(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - the base class names it so
    ) -> ActivityInboundInterceptor:
        """See temporalio.worker.Interceptor."""
        return _CountedActivity(next, self._meters)

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002 - the base class names it so
    ) -> type[WorkflowInboundInterceptor]:
        """See temporalio.worker.Interceptor."""
        del input
        return _CountedRun


class _CallMeters:
    def __init__(self, meter: MetricMeter) -> None:
        self.calls = meter.create_counter(CALLS, "Calls that ended, by tool, status and kind of error")
        self.retries = meter.create_counter(RETRIES, "Attempts that a rule retried, by tool")
        self.seconds = meter.create_histogram_timedelta(CALL_SECONDS, "Duration of attempts, by tool", "s")
        self.queue = meter.create_histogram_timedelta(
            QUEUE_SECONDS, "Time that attempts waited for a worker, by tool", "s"
        )


class _CountedActivity(ActivityInboundInterceptor):
    def __init__(self, next_: ActivityInboundInterceptor, meters: _CallMeters) -> None:
        super().__init__(next_)
        self._meters = meters

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        info = activity.info()
        if info.is_local or isinstance(input.args[0], CredentialNames):
            return await super().execute_activity(input)
        tool = {"tool": tool_kind(info.activity_type)}
        waiting_time = info.started_time - info.current_attempt_scheduled_time
        self._meters.queue.record(max(waiting_time, timedelta(0)), tool)  # the clocks of two servers may differ
        start = time.monotonic()
        try:
            report = await super().execute_activity(input)
        except ApplicationError as error:
            if error.next_retry_delay is not None:
                self._meters.retries.add(1, tool)
            raise
        finally:
            self._meters.seconds.record(timedelta(seconds=time.monotonic() - start), tool)
        if isinstance(report, ToolReport):
            error_info: Mapping[str, Any] = report.outcome.get("error") or {}
            self._meters.calls.add(1, {**tool, "status": report.outcome["status"], "kind": error_info.get("kind", "")})
        return report


class _CountedRun(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002
        if workflow.info().workflow_type != PLAYBOOK_WORKFLOW:
            return await super().execute_workflow(input)
        try:
            report: RunReport = await super().execute_workflow(input)
        except ApplicationError as error:
            status = "cancelled" if error.type == PLAYBOOK_CANCELLED else "failed"
            _count_run(input, status, next((detail for detail in error.details if isinstance(detail, RunReport)), None))
            raise
        except asyncio.CancelledError:
            _count_run(input, "cancelled", None)
            raise
        _count_run(input, report.status, report)
        return report


def _count_run(execution: ExecuteWorkflowInput, status: str, report: RunReport | None) -> None:
    """Count a run that ended, except in a replay. Without a report, its duration begins at the last continue-as-new."""
    playbook: Playbook = execution.args[1]
    meter, labels = workflow.metric_meter(), {"path": _PATHS.label(playbook.graph.source.path), "status": status}
    meter.create_counter(RUNS, "Runs that ended, by path and status").add(1, labels)
    start = workflow.info().workflow_start_time
    if report is not None and report.started:
        start = datetime.fromtimestamp(report.started / 1000, UTC)
    duration = workflow.now() - start
    meter.create_histogram_timedelta(RUN_SECONDS, "Duration of runs, by path and status", "s").record(duration, labels)
