"""``noetl pause``, ``noetl resume``, ``noetl retry`` and ``noetl skip``: control a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from noetl_temporal.cli.arguments import NAME, RUN_ID
from noetl_temporal.cli.run_requests import json_argument, send_request, user_name

if TYPE_CHECKING:  # importing Temporal is slow
    from noetl_temporal.runs import RunHandle

__all__ = ["pause_command", "resume_command", "retry_command", "skip_command"]

_RUN_ARGUMENT = click.argument("run", metavar="ID", type=RUN_ID)
_REQUESTED_BY = click.option(
    "--as", "requested_by", metavar="WHO", type=NAME, help="Who makes the request; the user's name by default."
)
_REASON = click.option("--reason", metavar="TEXT", default="", help="Why; recorded in the event log.")

_RERUN_HINT = "to run its steps again, use `noetl rerun {id} --from STEP`"

_ALL = click.option("--all", "is_all", is_flag=True, help="All held steps and items; with STEP, all of that step.")


@click.command("pause")
@_RUN_ARGUMENT
@click.option("--now", is_flag=True, help="Interrupt the calls in progress; they are repeated after noetl resume.")
@_REQUESTED_BY
@_REASON
def pause_command(run: int | str, now: bool, requested_by: str | None, reason: str) -> None:
    """Pause the run ID: no call, loop or step starts until noetl resume.

    Calls in progress end, with all their attempts. Signals, approvals and noetl cancel are accepted. The timeouts of
    steps, loops and the playbook do not count while the run is paused; delays and waits do.
    The playbooks that the run waits for pause with it.

    \b
    noetl pause 754318462739161088 --reason "the database is being moved"
    noetl pause 754318 --now
    """
    person = requested_by or user_name()
    execution_id, _ = send_request(run, lambda handle: handle.pause(by=person, reason=reason, now=now))
    click.echo(f"run {execution_id}: paused; to resume it: noetl resume {execution_id}")


@click.command("resume")
@_RUN_ARGUMENT
@_REQUESTED_BY
@_REASON
def resume_command(run: int | str, requested_by: str | None, reason: str) -> None:
    """Resume the run ID, which is paused.

    \b
    noetl resume 754318462739161088
    """
    person = requested_by or user_name()
    execution_id, _ = send_request(run, lambda handle: handle.resume(by=person, reason=reason))
    click.echo(f"run {execution_id}: resumed")


@click.command("retry")
@_RUN_ARGUMENT
@click.option("--step", metavar="STEP", type=NAME, help="The step; optional if only one is held.")
@_ALL
@_REQUESTED_BY
@_REASON
def retry_command(run: int | str, step: str | None, is_all: bool, requested_by: str | None, reason: str) -> None:
    """Retry a held step of the run ID: a step that failed and has on_failure: hold.

    Of a loop, only the items that failed or never ran are repeated; the others keep their results. A step inside a
    loop over several steps is held for each item: 'load[3]' is that for the item with index 3.

    \b
    noetl retry 754318462739161088
    noetl retry 754318462739161088 --step load --reason "the table exists now"
    noetl retry 754318462739161088 --step 'load[3]'
    noetl retry 754318462739161088 --all
    """
    person = requested_by or user_name()

    async def retry(handle: RunHandle) -> str | int:
        request = handle.retry_all if is_all else handle.retry
        return await request(step or "", by=person, reason=reason)

    _decide_held(run, "retrying", retry)


@click.command("skip")
@_RUN_ARGUMENT
@click.argument("step", metavar="[STEP]", type=NAME, required=False)
@_ALL
@click.option("--data", metavar="JSON", default="null", help="The result of the step, as JSON.")
@_REQUESTED_BY
@_REASON
def skip_command(
    run: int | str, step: str | None, is_all: bool, data: str, requested_by: str | None, reason: str
) -> None:
    """Skip the held STEP of the run ID: a step that failed and has on_failure: hold.

    The step then counts as succeeded, with the result from --data. STEP may be left out with --all.

    \b
    noetl skip 754318462739161088 load
    noetl skip 754318462739161088 'load[3]' --data '{"rows": []}'
    noetl skip 754318462739161088 load --all
    """
    if step is None and not is_all:
        raise click.UsageError("name the STEP to skip, or write --all for all held steps")
    person, result = requested_by or user_name(), json_argument(data, "--data")

    async def skip(handle: RunHandle) -> str | int:
        request = handle.skip_all if is_all else handle.skip
        return await request(step or "", result, by=person, reason=reason)

    _decide_held(run, "skipped", skip)


def _decide_held(run: int | str, verb: str, request: Callable[[RunHandle], Awaitable[str | int]]) -> None:
    """Send a request about held steps. ``request`` returns the name of the step, or the number of steps."""
    execution_id, count_or_name = send_request(run, request, if_ended=_RERUN_HINT)
    held = (
        count_or_name if isinstance(count_or_name, str) else f"{count_or_name:,} held step{'s' * (count_or_name != 1)}"
    )
    click.echo(f"run {execution_id}: {verb} {held}")
