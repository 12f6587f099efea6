"""``noetl replay``: check whether this build can replay histories and open runs."""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl_compiler.regular_file import read_regular
from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.exits import FAILED
from noetl_temporal.cli.logging_setup import log_to_file
from noetl_temporal.cli.payload import truncate
from noetl_temporal.ids import MAX_EXECUTION_ID
from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.home import Home

if TYPE_CHECKING:  # importing Temporal is slow
    from temporalio.client import WorkflowHistory
    from temporalio.converter import DataConverter

__all__ = ["replay_command"]

MAX_BYTES = 500_000_000
"""Bytes of a history in JSON: Temporal terminates runs over 50 MB of history, and JSON has payloads in base64."""


@click.command("replay")
@click.argument("targets", metavar="[ID|FILE]...", nargs=-1, type=click.Path())
@click.option("--open", "open_runs", is_flag=True, help="Check all playbooks and loops that are running.")
def replay_command(targets: tuple[str, ...], open_runs: bool) -> None:
    """Check that this build can continue runs started by an earlier build.

    Reports for each run whether it replays. No tool is called, and nothing is changed.

    ID is an execution: all its runs and those of its loops. FILE is a history in JSON, as the Temporal UI and
    `temporal workflow show --output json` write it. Exits with 1 if a run does not replay.

    \b
    noetl replay --open
    noetl replay 754318462739161088
    noetl replay history.json
    """
    if not targets and not open_runs:
        raise click.UsageError("name an execution or a file, or pass --open")
    files = [_history_file(target) for target in targets if not target.isdecimal()]
    executions = [_execution_id(target) for target in targets if target.isdecimal()]
    # A file needs no deployment, but its graph may be stored in one.
    with nullcontext() if executions or open_runs else suppress(StackError):
        running_deployment()
    log_to_file(Home().log("replay"))
    if not asyncio.run(_replay(files, executions, open_runs)):
        sys.exit(FAILED)


def _execution_id(target: str) -> int:
    if len(target) > len(str(MAX_EXECUTION_ID)) or int(target) > MAX_EXECUTION_ID:
        raise click.UsageError(f"{truncate(target)} is not an execution id: ids have 64 bits")
    return int(target)


def _history_file(target: str) -> Path:
    file = Path(target)
    if not file.is_file():
        raise click.UsageError(f"{target!r} is neither an execution id nor a file")
    return file


async def _replay(files: list[Path], executions: list[int], open_runs: bool) -> bool:
    """Replay all histories; return whether all succeeded."""
    from noetl_temporal.config import reading_converter

    converter = await reading_converter()
    all_replay = True
    total = 0
    for histories in [_histories_in_files(files), _histories_of_runs(executions, open_runs)]:
        async for history in histories:
            total += 1
            all_replay &= await _replay_and_report(history, converter)
    click.echo(f"{total} run{'s' * (total != 1)}: {'all replay' if all_replay else 'not all replay'}")
    return all_replay


async def _replay_and_report(history: WorkflowHistory, converter: DataConverter) -> bool:
    from noetl_temporal.inspection.replay import replay

    result = await replay(history, converter)
    name = f"{result.workflow_id} run {result.run_id} ({result.events} events)"
    click.echo(f"{name}: {'replays' if result.problem is None else f'does not replay: {result.problem}'}")
    return result.problem is None


async def _histories_in_files(files: list[Path]) -> AsyncIterator[WorkflowHistory]:
    from noetl_temporal.inspection.replay import NoHistoryError, parse_history

    for file in files:
        try:
            yield parse_history(_read_text(file))
        except (NoHistoryError, OSError, UnicodeDecodeError) as error:
            raise click.UsageError(f"{file}: {error}") from None


def _read_text(file: Path) -> str:
    """Return the text of a file. Raises OSError, UnicodeDecodeError."""
    content = read_regular(file, MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MAX_BYTES:,} bytes")
    return content.decode("utf-8")


async def _histories_of_runs(executions: list[int], open_runs: bool) -> AsyncIterator[WorkflowHistory]:
    from temporalio.service import RPCError

    from noetl_temporal.inspection.replay import histories_of, open_histories
    from noetl_temporal.runs import Runs, UnknownRunError
    from noetl_temporal.temporal_errors import rpc_error

    if not executions and not open_runs:
        return
    runs = await Runs.connect()
    try:
        for execution in executions:
            handle = await runs.find(execution)
            async for history in histories_of(runs.temporal, handle.workflow_id):
                yield history
        if open_runs:
            async for history in open_histories(runs.temporal):
                yield history
    except UnknownRunError as error:
        raise StackError(str(error)) from None
    except RPCError as error:
        raise rpc_error(error, runs.temporal.namespace) or error from error
