"""The run that an ID on the command line names."""

from __future__ import annotations

from typing import overload

from noetl_temporal.database_errors import DATABASE_ERRORS
from noetl_temporal.deployment import DeploymentError, postgres_problem
from noetl_temporal.environment import dsn_from_environment
from noetl_temporal.stack.errors import NoSuchRunError

__all__ = ["execution_of", "latest_in_temporal"]


@overload
async def execution_of(run: int | str) -> int: ...
@overload
async def execution_of(run: int | str | None) -> int | None: ...
async def execution_of(run: int | str | None) -> int | None:
    """Its execution id; None for the latest run. A text is looked up in the event log and in Temporal, as far as they
    can be asked. Raises NoSuchRunError when it names no run, or several; DeploymentError."""
    if not isinstance(run, str):
        return run
    from noetl_temporal.run_ids import AmbiguousIdError, chosen

    found: dict[int, str] = {}
    problems: list[DeploymentError] = []
    for look_up in (_in_log, _in_temporal):
        try:
            found |= await look_up(run)
        except DeploymentError as problem:
            problems.append(problem)
    if not found and problems:
        raise problems[0]
    try:
        execution_id = chosen(run, found)
    except AmbiguousIdError as error:
        raise NoSuchRunError(str(error)) from None
    if execution_id is None:
        raise NoSuchRunError(f"no run has an ID that begins with {run!r}: `noetl list` shows the runs there are")
    return execution_id


async def latest_in_temporal() -> int | None:
    """The latest run that Temporal knows; None if it knows none or is unreachable: then the event log is read."""
    from noetl_temporal.cli.find import find_run
    from noetl_temporal.runs import Runs, UnknownRunError

    try:
        return (await find_run(await Runs.connect(), None)).execution_id
    except (UnknownRunError, DeploymentError):
        return None


async def _in_log(text: str) -> dict[int, str]:
    from noetl_temporal.run_ids import matches_in_log

    dsn = dsn_from_environment()
    try:
        return await matches_in_log(dsn, text) if dsn else {}
    except DATABASE_ERRORS as error:
        raise postgres_problem(error, dsn or "") from error


async def _in_temporal(text: str) -> dict[int, str]:
    from temporalio.service import RPCError

    from noetl_temporal.config import connect_temporal
    from noetl_temporal.run_ids import matches_in_temporal
    from noetl_temporal.temporal_problems import rpc_problem

    client = await connect_temporal()
    try:
        return await matches_in_temporal(client, text)
    except RPCError as error:
        raise rpc_problem(error, client.namespace) or error from error
