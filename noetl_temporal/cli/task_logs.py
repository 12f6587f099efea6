"""``noetl logs``: what the tasks of a run print."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import click
import msgspec

from noetl_temporal.cli.arguments import NAME, RUN_ID
from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.logging_setup import discard_log
from noetl_temporal.cli.printable_stream import echo_json
from noetl_temporal.stack.errors import NoSuchRunError, StackError, WrongArgumentError

if TYPE_CHECKING:  # importing database drivers is slow
    from noetl_temporal.calls.task_log import LogLine, LogTail
    from noetl_temporal.cli.event_log import EventLog

__all__ = ["logs_command"]


@click.command("logs")
@click.argument("run", metavar="[ID]", type=RUN_ID, required=False)
@click.option("--follow", "-f", is_flag=True, help="Print new lines until the run ends.")
@click.option("--step", metavar="NAME", type=NAME, help="Only the tasks of this step.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def logs_command(run: int | str | None, follow: bool, step: str | None, as_json: bool) -> None:
    """Show what the tasks of the run ID print. Without ID: of the latest run.

    Each line has its time (UTC), step, item and attempt; items count from 0. Tasks are logged while they run, from
    Postgres. Of an attempt at most 1 MB is stored, and secrets of its credentials are masked.

    \b
    noetl logs --follow
    noetl logs 754318462739161088 --step fetch
    noetl logs 754318 --json | jq -r 'select(.stream == "stderr") | .text'
    """
    running_deployment()
    discard_log()
    with suppress(KeyboardInterrupt):
        asyncio.run(_show(run, step, follow=follow, as_json=as_json))


async def _show(run: int | str | None, step: str | None, *, follow: bool, as_json: bool) -> None:
    from noetl_temporal.calls.task_log import LogTail
    from noetl_temporal.cli.event_log import open_event_log
    from noetl_temporal.cli.named_run import latest_run_in_temporal, resolve_execution_id
    from noetl_temporal.environment import dsn_from_environment

    dsn = dsn_from_environment()
    if dsn is None:
        raise StackError("no logs to read: set NOETL_POSTGRES to the DSN of the event log's Postgres")
    async with open_event_log(dsn) as log:
        assert log is not None  # noqa: S101 - there is a DSN
        execution_id = await resolve_execution_id(run) or await latest_run_in_temporal() or await _latest_in_log(log)
        tail = LogTail(execution_id, step)
        has_lines = await _print_stored(log, tail, as_json=as_json)
        if step and not has_lines:
            await _check_step(log, execution_id, step)
        if follow:
            has_lines = await _follow(log, tail, execution_id, as_json=as_json) or has_lines
        if not has_lines:
            await _explain_no_output(log, execution_id, step)


async def _latest_in_log(log: EventLog) -> int:
    from noetl_temporal.mirror.read import latest_execution

    async with log.connection() as connection:
        run = await latest_execution(connection)
    if run is None:
        raise NoSuchRunError("the event log is empty")
    return run.execution_id


async def _print_stored(log: EventLog, tail: LogTail, *, as_json: bool) -> bool:
    """Print the stored lines that were not printed before; return whether there were any."""
    has_lines = False
    while True:
        async with log.connection() as connection:
            lines = await tail.read(connection)
        if not lines:
            return has_lines
        has_lines = True
        for line in lines:
            _print(line, as_json=as_json)


async def _check_step(log: EventLog, execution_id: int, step: str) -> None:
    """Raise WrongArgumentError for a step that the playbook does not have, if the event log has the playbook."""
    from noetl_activities.installed_tools import installed_tools
    from noetl_compiler import compile_text
    from noetl_compiler.diagnostics import did_you_mean_or_list
    from noetl_temporal.mirror.read import playbook_text

    async with log.connection() as connection:
        text = await playbook_text(connection, execution_id)
    graph = compile_text(text[1], text[0], installed_tools()).graph if text else None
    if graph is not None and step not in graph.steps:
        hint = did_you_mean_or_list(step, graph.steps, "its steps are")
        raise WrongArgumentError(
            f"the playbook of run {execution_id} has no step {step!r}{f': {hint}' if hint else ''}"
        )


async def _follow(log: EventLog, tail: LogTail, execution_id: int, *, as_json: bool) -> bool:
    """Print new lines until the run has ended; return whether there were any.

    The lines of a task are stored before its end is logged, so none is missed.
    """
    from noetl_temporal.mirror.poll_interval import PollInterval
    from noetl_temporal.runs import Runs, UnknownRunError

    runs = await Runs.connect()
    try:
        end_task = asyncio.ensure_future((await runs.find(execution_id)).result())
    except UnknownRunError:
        return False  # Temporal has removed it, long after its end
    interval, has_lines = PollInterval(), False
    try:
        while not end_task.done():
            has_new_lines = await _print_stored(log, tail, as_json=as_json)
            has_lines = has_lines or has_new_lines
            await interval.wait(found_rows=has_new_lines)
        end_task.result()
    finally:
        end_task.cancel()
    return await _print_stored(log, tail, as_json=as_json) or has_lines


async def _explain_no_output(log: EventLog, execution_id: int, step: str | None) -> None:
    """Print that there is no output. Raises NoSuchRunError for an unknown run."""
    from noetl_temporal.mirror.read import find_execution
    from noetl_temporal.runs import Runs, UnknownRunError

    async with log.connection() as connection:
        is_known = await find_execution(connection, execution_id) is not None
    try:
        if not is_known:
            await (await Runs.connect()).find(execution_id)
    except UnknownRunError:
        from noetl_temporal.cli.named_run import unknown_run_error

        raise unknown_run_error(execution_id) from None
    subject = f"step {step!r} of run {execution_id}" if step else f"run {execution_id}"
    click.echo(f"{subject} has printed nothing", err=True)


def _print(line: LogLine, *, as_json: bool) -> None:
    if not as_json:
        click.echo(f"{line.time:%H:%M:%S.%f}"[:-3] + f" {line.text_with_source()}")
        return
    fields = {**msgspec.structs.asdict(line), "execution_id": str(line.execution_id)}
    echo_json(msgspec.json.encode(fields).decode())
