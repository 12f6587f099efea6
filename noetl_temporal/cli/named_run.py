"""Finds the run that an ID on the command line names."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from noetl_temporal.database_errors import DATABASE_ERRORS
from noetl_temporal.deployment import DeploymentError, postgres_error
from noetl_temporal.environment import dsn_from_environment
from noetl_temporal.stack.errors import NoSuchRunError

if TYPE_CHECKING:
    from noetl_temporal.runs import RunHandle, Runs

__all__ = ["find_run", "latest_run_in_temporal", "resolve_execution_id", "unknown_run_error"]


@overload
async def resolve_execution_id(run: int | str) -> int: ...
@overload
async def resolve_execution_id(run: int | str | None) -> int | None: ...
async def resolve_execution_id(run: int | str | None) -> int | None:
    """Return the execution id; None for the latest run.

    A string is looked up in the event log and in Temporal, if they can be reached. Raises NoSuchRunError if it names no
    run, or several; DeploymentError.
    """
    if not isinstance(run, str):
        return run
    from noetl_temporal.inspection.run_ids import AmbiguousIdError, matching_run

    paths: dict[int, str] = {}
    problems: list[DeploymentError] = []
    for look_up in (_find_in_log, _find_in_temporal):
        try:
            paths |= await look_up(run)
        except DeploymentError as problem:
            problems.append(problem)
    if not paths and problems:
        raise problems[0]
    try:
        execution_id = matching_run(run, paths)
    except AmbiguousIdError as error:
        raise NoSuchRunError(str(error)) from None
    if execution_id is None:
        raise NoSuchRunError(f"no run has an ID that begins with {run!r}: `noetl list` shows the runs there are")
    return execution_id


async def find_run(runs: Runs, execution_id: int | None) -> RunHandle:
    """Return the handle of a run, or of the latest run that no other has called.

    Raises UnknownRunError when Temporal has no such run, DeploymentError.
    """
    from temporalio.service import RPCError

    from noetl_temporal.inspection.run_list import latest_run
    from noetl_temporal.runs import UnknownRunError
    from noetl_temporal.temporal_errors import rpc_error

    if execution_id is not None:
        return await runs.find(execution_id)
    try:
        workflow_id = await latest_run(runs.temporal)
    except RPCError as error:
        raise rpc_error(error, runs.temporal.namespace) or error from error
    if workflow_id is None:
        raise UnknownRunError("nothing has run here yet")
    return await runs.handle(workflow_id)


def unknown_run_error(execution_id: int) -> NoSuchRunError:
    """Return the error for a run that neither Temporal nor the event log has."""
    return NoSuchRunError(f"neither Temporal nor the event log has a run {execution_id}")


async def latest_run_in_temporal() -> int | None:
    """Return the latest run in Temporal; None if it has none or is unreachable."""
    from noetl_temporal.runs import Runs, UnknownRunError

    try:
        return (await find_run(await Runs.connect(), None)).execution_id
    except (UnknownRunError, DeploymentError):
        return None


async def _find_in_log(text: str) -> dict[int, str]:
    from noetl_temporal.inspection.run_ids import matches_in_log

    dsn = dsn_from_environment()
    try:
        return await matches_in_log(dsn, text) if dsn else {}
    except DATABASE_ERRORS as error:
        raise postgres_error(error, dsn or "") from error


async def _find_in_temporal(text: str) -> dict[int, str]:
    from temporalio.service import RPCError

    from noetl_temporal.config import connect_temporal
    from noetl_temporal.inspection.run_ids import matches_in_temporal
    from noetl_temporal.temporal_errors import rpc_error

    client = await connect_temporal()
    try:
        return await matches_in_temporal(client, text)
    except RPCError as error:
        raise rpc_error(error, client.namespace) or error from error
