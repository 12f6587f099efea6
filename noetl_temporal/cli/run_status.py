"""Reads the status of a run from Temporal, or else from the event log."""

from __future__ import annotations

import click
from temporalio.service import RPCError

from noetl_temporal.cli.connection import Deployment
from noetl_temporal.cli.describe_run import describe_run
from noetl_temporal.cli.event_log import open_event_log
from noetl_temporal.cli.named_run import find_run, unknown_run_error
from noetl_temporal.cli.past_run import describe_past_run
from noetl_temporal.cli.run_report import RunSummary
from noetl_temporal.config import reading_converter
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.environment import dsn_from_environment
from noetl_temporal.runs import Runs, UnknownRunError
from noetl_temporal.stack.errors import NoSuchRunError
from noetl_temporal.temporal_errors import rpc_error

__all__ = ["run_status"]


async def run_status(execution_id: int | None, deployment: Deployment) -> RunSummary:
    """Return the status of a run, or of the latest one. Raises NoSuchRunError, DeploymentError, RPCError."""
    try:
        return await _describe(deployment, execution_id)
    except (UnknownRunError, DeploymentError) as error:
        dsn = dsn_from_environment()
        past_run = await describe_past_run(dsn, await reading_converter(dsn), execution_id) if dsn else None
        if past_run is None:
            raise (
                _unknown_run_error(error, execution_id, dsn) if isinstance(error, UnknownRunError) else error
            ) from None
        if isinstance(error, DeploymentError):
            click.echo(f"{error}\nThe event log has this:", err=True)
        return past_run


def _unknown_run_error(error: UnknownRunError, execution_id: int | None, dsn: str | None) -> NoSuchRunError:
    if execution_id is None or dsn is None:
        return NoSuchRunError(str(error))
    return unknown_run_error(execution_id)


async def _describe(deployment: Deployment, execution_id: int | None) -> RunSummary:
    runs = await Runs.connect()
    handle = await find_run(runs, execution_id)
    try:
        async with open_event_log(runs.dsn) as log:
            return await describe_run(runs, handle, log, deployment.ui_url)
    except RPCError as error:
        raise rpc_error(error, runs.temporal.namespace) or error from error
