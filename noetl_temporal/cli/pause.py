"""``noetl pause``, ``noetl resume``, ``noetl retry`` and ``noetl skip``: control a run."""

from __future__ import annotations

import click

from noetl_temporal.cli.arguments import NAME, RUN_ID
from noetl_temporal.cli.run_requests import json_argument, send_request, user_name

__all__ = ["pause_command", "resume_command", "retry_command", "skip_command"]

_RUN = click.argument("execution", metavar="ID", type=RUN_ID)
_BY = click.option("--as", "by", metavar="WHO", type=NAME, help="Who makes the request; the user's name by default.")
_REASON = click.option("--reason", metavar="TEXT", default="", help="Why; recorded in the event log.")


@click.command("pause")
@_RUN
@click.option("--now", is_flag=True, help="Interrupt the calls in progress; they are repeated after noetl resume.")
@_BY
@_REASON
def pause_command(execution: int | str, now: bool, by: str | None, reason: str) -> None:
    """Pause the run ID: no call, loop or step starts until noetl resume.

    Calls in progress end, with all their attempts. Signals, approvals and noetl cancel are accepted. The timeouts of
    steps, loops and the playbook do not count while the run is paused; delays and waits do.
    The playbooks that the run waits for pause with it.

    \b
    noetl pause 754318462739161088 --reason "the database is being moved"
    noetl pause 754318 --now
    """
    who = by or user_name()
    execution_id, _ = send_request(execution, lambda handle: handle.pause(by=who, reason=reason, now=now))
    click.echo(f"run {execution_id}: paused; to resume it: noetl resume {execution_id}")


@click.command("resume")
@_RUN
@_BY
@_REASON
def resume_command(execution: int | str, by: str | None, reason: str) -> None:
    """Resume the run ID, which is paused.

    \b
    noetl resume 754318462739161088
    """
    who = by or user_name()
    execution_id, _ = send_request(execution, lambda handle: handle.resume(by=who, reason=reason))
    click.echo(f"run {execution_id}: resumed")


@click.command("retry")
@_RUN
@click.option("--step", metavar="STEP", type=NAME, help="The step; optional if only one is held.")
@_BY
@_REASON
def retry_command(execution: int | str, step: str | None, by: str | None, reason: str) -> None:
    """Retry a held step of the run ID: a step that failed and has on_failure: hold.

    Of a loop, only the items that failed or never ran are repeated; the others keep their results.

    \b
    noetl retry 754318462739161088
    noetl retry 754318462739161088 --step load --reason "the table exists now"
    """
    who = by or user_name()
    execution_id, run = send_request(execution, lambda handle: handle.retry(step or "", by=who, reason=reason))
    click.echo(f"run {execution_id}: retrying {run}")


@click.command("skip")
@_RUN
@click.argument("step", metavar="STEP", type=NAME)
@click.option("--data", metavar="JSON", default="null", help="The result of the step, as JSON.")
@_BY
@_REASON
def skip_command(execution: int | str, step: str, data: str, by: str | None, reason: str) -> None:
    """Skip the held STEP of the run ID: a step that failed and has on_failure: hold.

    The step then counts as succeeded, with the result from --data.

    \b
    noetl skip 754318462739161088 load
    noetl skip 754318462739161088 fetch --data '{"rows": []}'
    """
    who, result = by or user_name(), json_argument(data, "--data")
    execution_id, run = send_request(execution, lambda handle: handle.skip(step, result, by=who, reason=reason))
    click.echo(f"run {execution_id}: skipped {run}")
