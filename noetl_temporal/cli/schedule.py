"""``noetl schedule``: schedules of registered playbooks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from noetl_temporal.cli.arguments import DURATION, MOMENT, NAME
from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.exits import WRONG
from noetl_temporal.cli.importing import importing
from noetl_temporal.cli.logging_setup import discard_log
from noetl_temporal.cli.payload import read_payload
from noetl_temporal.cli.printable_stream import echo_json
from noetl_temporal.naming import OVERLAPS, Overlap
from noetl_temporal.stack.errors import StackError, WrongArgumentError
from noetl_temporal.utc_time import utc_text

if TYPE_CHECKING:  # importing Temporal is slow
    from noetl_temporal.client import NoetlClient, PlaybookSchedule

__all__ = ["schedule_group"]

T = TypeVar("T")

_OVERLAP = click.Choice(OVERLAPS)
_NAME = click.argument("name")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per schedule.")


@click.group("schedule")
def schedule_group() -> None:
    """Run registered playbooks on schedules.

    \b
    noetl schedule add etl/load --cron "0 6 * * *" --time-zone Europe/Oslo
    noetl schedule list
    noetl schedule pause etl/load --note "source is down"
    noetl schedule trigger etl/load
    """


@schedule_group.command("add")
@click.argument("playbook", metavar="PATH[@VERSION]")
@click.option("--name", type=NAME, help="The name of the schedule; PATH by default.")
@click.option("--cron", "cron", multiple=True, metavar="FIELDS", help='Cron expression, such as "0 6 * * 1-5".')
@click.option("--every", type=DURATION, metavar="DURATION", help="Interval, such as 15m, aligned to midnight UTC.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set a workload value of every run.")
@click.option("--payload", metavar="JSON|@FILE", help="The request of every run.")
@click.option("--time-zone", metavar="ZONE", help="Time zone of --cron, such as Europe/Oslo; UTC by default.")
@click.option("--jitter", type=DURATION, metavar="DURATION", help="Delay each run by a random time up to this.")
@click.option(
    "--overlap",
    type=_OVERLAP,
    default="skip",
    show_default=True,
    help="What to do while an earlier run is still running.",
)
@click.option(
    "--catch-up",
    type=DURATION,
    metavar="DURATION",
    help="How late a run may start after Temporal was down; 10m by default.",
)
@click.option("--paused", is_flag=True, help="Start no run before noetl schedule resume.")
@_JSON
def add_command(
    playbook: str,
    name: str | None,
    cron: tuple[str, ...],
    every: timedelta | None,
    settings: tuple[str, ...],
    payload: str | None,
    time_zone: str | None,
    jitter: timedelta | None,
    overlap: Overlap,
    catch_up: timedelta | None,
    paused: bool,
    as_json: bool,
) -> None:
    """Run the registered playbook PATH on a schedule.

    With a version, every run is of that version. Without one, the schedule moves when a newer version is registered.

    \b
    noetl schedule add etl/load --cron "0 6 * * *"
    noetl schedule add etl/load@3 --every 15m --jitter 1m --set city=Oslo
    noetl schedule add etl/load --name weekly --cron "0 6 * * 1" --time-zone Europe/Oslo
    """
    if not cron and every is None:
        raise click.UsageError("--cron or --every is required")
    with importing():
        from noetl_temporal.cli.catalog_playbook import read_registered
        from noetl_temporal.cli.credentials import check_names_of_workers
        from noetl_temporal.cli.playbook import check_request, check_support
        from noetl_temporal.submission.catalog_store import split_version
        from noetl_temporal.submission.schedule_types import CATCH_UP
        from noetl_temporal.submission.unsupported import available_tools

        request = read_payload(payload, settings)
        running_deployment()
    playbook_version = read_registered(playbook, request)
    check_request(request, playbook_version)
    check_support(playbook_version, available_tools(*playbook_version.graphs))
    path, version = split_version(playbook)

    async def add(client: NoetlClient) -> PlaybookSchedule:
        await check_names_of_workers(playbook_version.graphs, client.temporal)
        return await client.schedules.add(
            path,
            version,
            name=name,
            cron=cron,
            every=every,
            payload=request,
            time_zone=time_zone,
            jitter=jitter or timedelta(),
            overlap=overlap,
            catch_up=catch_up or CATCH_UP,
            paused=paused,
        )

    schedule = _call_client(add)
    _print([schedule], as_json=as_json, describe=True)


@schedule_group.command("list")
@click.option("--path", type=NAME, help="Only schedules of this playbook.")
@_JSON
def list_command(path: str | None, as_json: bool) -> None:
    """List the schedules of playbooks.

    \b
    noetl schedule list
    noetl schedule list --path etl/load --json
    """
    schedules = _call_client(lambda client: client.schedules.list(path))
    if schedules or as_json:
        _print(schedules, as_json=as_json)
    else:
        click.echo("no schedules", err=True)


@schedule_group.command("show", short_help="Show the times and the runs of a schedule.")
@_NAME
@_JSON
def show_command(name: str, as_json: bool) -> None:
    """Show the schedule NAME: its times, its next runs and its latest ones."""
    _print([_call_client(lambda client: client.schedules.get(name))], as_json=as_json, describe=True)


@schedule_group.command("pause")
@_NAME
@click.option("--note", metavar="TEXT", help="Why; shown by noetl schedule show.")
def pause_command(name: str, note: str | None) -> None:
    """Start no more runs of the schedule NAME. Runs in progress continue."""
    _call_client(lambda client: client.schedules.pause(name, note))
    click.echo(f"schedule {name}: paused")


@schedule_group.command("resume")
@_NAME
@click.option("--note", metavar="TEXT", help="Why; shown by noetl schedule show.")
def resume_command(name: str, note: str | None) -> None:
    """Start runs of the schedule NAME again.

    Runs missed during the pause are not started: use noetl schedule backfill.
    """
    _call_client(lambda client: client.schedules.resume(name, note))
    click.echo(f"schedule {name}: resumed")


@schedule_group.command("trigger")
@_NAME
@click.option("--overlap", type=_OVERLAP, help="Instead of the schedule's own.")
def trigger_command(name: str, overlap: Overlap | None) -> None:
    """Start a run of the schedule NAME now."""
    _call_client(lambda client: client.schedules.trigger(name, overlap))
    click.echo(f"schedule {name}: triggered; `noetl schedule show {name}` shows its runs")


@schedule_group.command("backfill", short_help="Start the runs of a past period.")
@_NAME
@click.option(
    "--from", "start", type=MOMENT, required=True, metavar="TIME", help="The first time; UTC unless it has an offset."
)
@click.option("--to", "end", type=MOMENT, required=True, metavar="TIME", help="The last time.")
@click.option(
    "--overlap",
    type=_OVERLAP,
    default="buffer_all",
    show_default=True,
    help="What to do while an earlier run is still running.",
)
def backfill_command(name: str, start: datetime, end: datetime, overlap: Overlap) -> None:
    """Start the runs that the schedule NAME would have started in a past period.

    \b
    noetl schedule backfill etl/load --from 2026-11-20 --to 2026-11-23
    """
    _call_client(lambda client: client.schedules.backfill(name, start, end, overlap))
    click.echo(f"schedule {name}: the runs from {utc_text(start)} to {utc_text(end)} will be started")


@schedule_group.command("delete")
@_NAME
def delete_command(name: str) -> None:
    """Delete the schedule NAME. Its runs continue."""
    _call_client(lambda client: client.schedules.delete(name))
    click.echo(f"schedule {name}: deleted")


def _call_client(call: Callable[[NoetlClient], Awaitable[T]]) -> T:
    running_deployment()
    discard_log()
    with importing():
        from noetl_compiler import CompileError
        from noetl_temporal.client import NoetlClient, NoEventLogError, ScheduleError, UnknownPlaybookError
        from noetl_temporal.submission.unsupported import UnsupportedError

    async def connect_and_call() -> T:
        return await call(await NoetlClient.connect())

    try:
        return asyncio.run(connect_and_call())
    except (ScheduleError, UnknownPlaybookError) as error:
        raise WrongArgumentError(str(error)) from None
    except NoEventLogError as error:
        raise StackError(str(error)) from None
    except (CompileError, UnsupportedError) as error:
        click.echo(str(error), err=True)
        sys.exit(WRONG)


def _print(schedules: Sequence[PlaybookSchedule], *, as_json: bool, describe: bool = False) -> None:
    from noetl_temporal.cli.console import print_table
    from noetl_temporal.cli.describe_schedule import schedule_details, schedule_table

    if as_json:
        for schedule in schedules:
            echo_json(msgspec.json.encode(_json_fields(schedule)).decode())
    elif describe:
        for schedule in schedules:
            click.echo(schedule_details(schedule))
    else:
        print_table(schedule_table(schedules))


def _json_fields(schedule: PlaybookSchedule) -> dict[str, Any]:
    """Return the fields of a schedule for JSON: ids as strings, because they exceed 2^53, and durations in seconds."""
    runs = [
        {**msgspec.structs.asdict(run), "execution_id": run.execution_id and str(run.execution_id)}
        for run in schedule.runs
    ]
    return {**msgspec.structs.asdict(schedule), "catch_up": schedule.catch_up.total_seconds(), "runs": runs}
