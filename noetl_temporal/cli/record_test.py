"""``noetl test --record``: convert a run to a test."""

from __future__ import annotations

import asyncio

from temporalio.converter import DataConverter
from temporalio.service import RPCError

from noetl_activities.installed_tools import installed_tools
from noetl_temporal.cli.named_run import resolve_execution_id
from noetl_temporal.config import reading_converter
from noetl_temporal.messages.run_input import RunReport
from noetl_temporal.naming import SUCCEEDED
from noetl_temporal.playbook_tests.expectations import TrialProblem
from noetl_temporal.playbook_tests.recorded_runs import RecordedRun, recorded_run
from noetl_temporal.playbook_tests.recording import recorded_test
from noetl_temporal.runs import Runs, UnknownRunError
from noetl_temporal.stack.errors import NoSuchRunError, StackError
from noetl_temporal.temporal_errors import rpc_error

__all__ = ["record_test"]


def record_test(run: int | str) -> tuple[str, tuple[TrialProblem, ...]]:
    """Return the text of the test, and its failures. Raises StackError, NoSuchRunError, DeploymentError."""
    return recorded_test(*asyncio.run(_read_recording(run)), installed_tools())


async def _read_recording(run: int | str) -> tuple[RecordedRun, RunReport]:
    execution_id = await resolve_execution_id(run)
    runs = await Runs.connect()
    try:
        handle = await runs.find(execution_id)
        description = await handle.workflow.describe()
        if description.close_time is None:
            raise StackError(f"run {execution_id} has not ended: record it then")
        report = await handle.result()
        if report.status not in (*SUCCEEDED, "failed", "cancelled"):
            status = report.status.replace("_", " ")
            raise StackError(
                f"run {execution_id} is {status}: only a run that completed, failed or was cancelled can be recorded"
            )
        recorded = await _whole_run(runs, await reading_converter(), handle.workflow_id)
    except (UnknownRunError, LookupError) as error:
        raise NoSuchRunError(str(error)) from None
    except RPCError as error:
        raise rpc_error(error, runs.temporal.namespace) or error from error
    return recorded, report


async def _whole_run(runs: Runs, converter: DataConverter, workflow_id: str) -> RecordedRun:
    """Return the run; that of a rerun includes what it reused from earlier runs.

    Raises the errors of recorded_run, UnknownRunError."""
    run = await recorded_run(runs.temporal, converter, workflow_id)
    if not run.rerun_of:
        return run
    earlier = await runs.find(run.rerun_of)
    return run.combined_with(await _whole_run(runs, converter, earlier.workflow_id))
