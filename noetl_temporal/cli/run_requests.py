"""Sends requests to a run: signals, decisions, and those that control it."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from noetl_activities import json_limits
from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.exits import UNKNOWN
from noetl_temporal.cli.importing import importing
from noetl_temporal.cli.json_text import decode_json
from noetl_temporal.cli.logging_setup import discard_log
from noetl_temporal.stack.errors import NoSuchRunError, StackError

if TYPE_CHECKING:  # importing Temporal is slow
    from temporalio.client import Client

    from noetl_temporal.control.request_sending import NoAnswerError
    from noetl_temporal.runs import RunHandle, Runs

__all__ = ["json_argument", "send_request", "user_name"]


def send_request(
    run: int | str, request: Callable[[RunHandle], Awaitable[Any]], *, if_ended: str = ""
) -> tuple[int, Any]:
    """Call ``request`` with the handle of a run, and return the run's execution id and the result.

    Raises NoSuchRunError, and StackError with the reason of a refusal; if the run has ended, the hint ``if_ended``
    follows, and if only playbooks that it called wait for a person, what answers them. Raises click.ClickException if
    it is unknown whether the run accepts the request.
    """
    running_deployment()
    with importing():
        from temporalio.service import RPCError

        from noetl_temporal.cli.named_run import resolve_execution_id
        from noetl_temporal.control.request_sending import NoAnswerError
        from noetl_temporal.runs import RequestRefusedError, RunOverError, Runs, UnknownRunError
        from noetl_temporal.temporal_errors import rpc_error

    discard_log()

    async def send() -> tuple[int, Any]:
        runs = await Runs.connect()
        execution_id = await resolve_execution_id(run)
        try:
            handle = await runs.find(execution_id)
        except UnknownRunError as error:
            raise NoSuchRunError(str(error)) from None
        try:
            return handle.execution_id, await request(handle)
        except NoAnswerError as error:
            raise _UnansweredError(await _why_no_answer(error, runs.temporal, handle)) from None
        except RunOverError as error:
            hint = if_ended.format(id=execution_id)
            raise StackError(f"run {execution_id}: {error}{hint and f'; {hint}'}") from None
        except RequestRefusedError as error:
            called_waits = "".join(f"\n{line}" for line in await _called_wait_lines(runs, handle))
            raise StackError(f"run {execution_id}: {error}{called_waits}") from None
        except RPCError as error:
            raise rpc_error(error, runs.temporal.namespace) or error from error

    return asyncio.run(send())


class _UnansweredError(click.ClickException):
    """It is unknown whether the run accepts the request."""

    exit_code = UNKNOWN


async def _called_wait_lines(runs: Runs, handle: RunHandle) -> list[str]:
    """Return what the playbooks that the run called wait for, with the commands; empty if it waits itself."""
    from noetl_temporal.cli.called_waits import query_open_waits, read_called_waits
    from noetl_temporal.cli.event_log import open_event_log
    from noetl_temporal.environment import dsn_from_environment

    own_waits = await query_open_waits(handle)
    if own_waits.waits or own_waits.held:
        return []
    async with open_event_log(dsn_from_environment()) as log:
        return list((await read_called_waits(log, runs, handle.execution_id)).lines())


async def _why_no_answer(error: NoAnswerError, client: Client, handle: RunHandle) -> str:
    """Return why no worker has responded: what blocks the run, if known, else the error."""
    from temporalio.service import RPCError

    from noetl_temporal.cli.run_problems import read_run_problems

    try:
        problems = await read_run_problems(client, handle.workflow_id, handle.execution_id)
    except RPCError:
        problems = []
    causes = [problem.line() for problem in problems if problem.kind in ("incident", "no_worker")]
    reason = f"{'; '.join(causes)}. The run may accept this request then" if causes else str(error)
    return f"run {handle.execution_id}: {reason}"


def json_argument(text: str, option: str) -> Any:
    """Parse the JSON value of an option. Raises click.UsageError."""
    if excess := json_limits.exceeded_limit(text):
        raise click.UsageError(f"{option} is too large ({excess})")
    try:
        return decode_json(text)
    except ValueError as error:
        hint = f": write '\"{text}\"' for a string" if text.isidentifier() else ""
        raise click.UsageError(f"{option} is not JSON: {error}{hint}") from None


def user_name() -> str:
    """Return the default name of the person who sends a request."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
