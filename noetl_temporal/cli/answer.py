"""``noetl signal``, ``noetl approve`` and ``noetl reject``: answer a run that waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import click

from noetl_temporal.cli.arguments import NAME, RUN_ID
from noetl_temporal.cli.payload import read_value, truncate
from noetl_temporal.cli.run_requests import json_argument, send_request, user_name

if TYPE_CHECKING:  # importing Temporal is slow
    from noetl_temporal.machine.waits.wait import Wait
    from noetl_temporal.runs import RunHandle

__all__ = ["approve_command", "reject_command", "signal_command"]

_DECISION_OPTIONS = (
    click.argument("run", metavar="ID", type=RUN_ID),
    click.argument("step", metavar="[STEP]", required=False, type=NAME),
    click.option(
        "--form", "fields", metavar="FIELD=VALUE", multiple=True, help="Fill in a field of the form; VALUE is YAML."
    ),
    click.option("--as", "decided_by", metavar="WHO", type=NAME, help="Who decides; the user's name by default."),
    click.option("--reason", metavar="TEXT", default="", help="Why; recorded in the result and the event log."),
)


def _add_decision_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_DECISION_OPTIONS):
        command = option(command)
    return command


@click.command("signal")
@click.argument("run", metavar="ID", type=RUN_ID)
@click.argument("name", metavar="NAME", type=NAME)
@click.option(
    "--data", metavar="JSON", default="null", help="The payload as JSON; it is the result of the waiting task."
)
@click.option("--key", metavar="KEY", type=NAME, help="The key of the wait, if several wait for this name.")
def signal_command(run: int | str, name: str, data: str, key: str | None) -> None:
    """Send the signal NAME to the run ID.

    A signal that arrives before a step waits for it is kept. A signal that no step of the playbook waits
    for is refused.

    \b
    noetl signal 754318462739161088 paid
    noetl signal 754318462739161088 paid --key order-7 --data '{"amount": 3}'
    """
    payload = json_argument(data, "--data")
    execution_id, _ = send_request(run, lambda handle: handle.signal(name, payload, key=key))
    click.echo(f"run {execution_id}: signal {name} accepted")


@click.command("approve")
@_add_decision_options
def approve_command(
    run: int | str, step: str | None, fields: tuple[str, ...], decided_by: str | None, reason: str
) -> None:
    """Approve what the run ID waits for.

    STEP is required only if the run waits for several approvals; STEP[3] is the item with index 3 of a loop.

    \b
    noetl approve 754318462739161088
    noetl approve 754318462739161088 review --form amount=3 --as ann --reason "checked"
    """
    _decide(run, step, fields, decided_by, reason, approved=True)


@click.command("reject")
@_add_decision_options
def reject_command(
    run: int | str, step: str | None, fields: tuple[str, ...], decided_by: str | None, reason: str
) -> None:
    """Reject what the run ID waits for.

    The run continues: its routes decide what follows a rejection.

    \b
    noetl reject 754318462739161088 review --reason "too much"
    """
    _decide(run, step, fields, decided_by, reason, approved=False)


def _decide(
    run: int | str,
    step: str | None,
    fields: tuple[str, ...],
    decided_by: str | None,
    reason: str,
    *,
    approved: bool,
) -> None:
    decision_maker = decided_by or user_name()

    async def decide(handle: RunHandle) -> Wait:
        wait = await handle.approval(step)
        form = _parse_form_fields(fields, wait.form)
        send_decision = handle.approve if approved else handle.reject
        return await send_decision(wait.name, by=decision_maker, reason=reason, form=form)

    execution_id, wait = send_request(run, decide)
    click.echo(f"run {execution_id}: {wait.name} {'approved' if approved else 'rejected'} by {decision_maker}")


def _parse_form_fields(fields: tuple[str, ...], form: Mapping[str, Any]) -> dict[str, Any]:
    """Parse fields such as ``amount=3``. Values of string fields are not parsed; others are YAML, as with ``--set``."""
    values: dict[str, Any] = {}
    for field in fields:
        name, equals, value = field.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--form takes FIELD=VALUE, such as amount=3; got {field!r}")
        if name not in form:
            names = ", ".join(f"{field_name} ({_field_type(form[field_name])})" for field_name in form)
            hint = f"its fields are {names}" if names else "it has no fields"
            raise click.UsageError(f"the form has no field {truncate(name)!r}: {hint}")
        values[name] = value if _field_type(form[name]) == "string" else read_value("--form", name, value)
    return values


def _field_type(field: Any) -> str:
    """Return the type of a field, which is declared as ``TYPE`` or as ``{type: TYPE}``."""
    return str(cast("dict[str, Any]", field).get("type") if isinstance(field, dict) else field)
