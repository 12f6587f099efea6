"""Numbers and times on the command line, within the limits of Temporal, Postgres and timers."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from noetl_temporal.cli.text_arguments import UnicodeText, quote_argument
from noetl_temporal.ids import ID_LENGTHS, MAX_EXECUTION_ID, MIN_ID_CHARACTERS, exact_id

__all__ = [
    "DURATION",
    "HOST_AND_PORT",
    "MAX_SIZE",
    "MOMENT",
    "NAME",
    "RUN_ID",
    "Seconds",
    "parse_duration",
    "parse_time",
    "read_amounts",
    "read_sizes",
]

MAX_NAME_CHARACTERS = 1000
"""The maximum number of characters of a workflow id in Temporal."""

MAX_SIZE = 10**12
"""The largest number of items, pages or bytes in a forecast."""


class _RunId(click.ParamType[Any]):
    """The ID of a run: an execution id as int, or a string to look up (cli/named_run.py)."""

    name = "run"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Raises click.BadParameter."""
        if isinstance(value, int):
            return value
        text = str(value)
        if (
            text.isdecimal()
            and len(text) >= ID_LENGTHS[0]
            and (len(text) > ID_LENGTHS[-1] or int(text) > MAX_EXECUTION_ID)
        ):
            return self.fail(f"{quote_argument(text)} is not a run ID: these have 64 bits", param, ctx)
        execution_id = exact_id(text)
        if execution_id is not None:
            return execution_id
        if 0 < len(text) < MIN_ID_CHARACTERS:
            return self.fail(
                f"{quote_argument(text)} is too short: give at least {MIN_ID_CHARACTERS} characters", param, ctx
            )
        if not text or len(text) > MAX_NAME_CHARACTERS or not text.isprintable():
            return self.fail(
                f"{quote_argument(text)} is not a run ID, such as 754318462739161088, or its first "
                f"{MIN_ID_CHARACTERS} characters",
                param,
                ctx,
            )
        return text


RUN_ID = _RunId()


class _Name(UnicodeText):
    """A name, which must not be empty, as an unset variable of a script is."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Raises click.BadParameter."""
        text = super().convert(value, param, ctx)
        if not 0 < len(text) <= MAX_NAME_CHARACTERS:
            return self.fail(f"a name has 1 to {MAX_NAME_CHARACTERS:,} characters", param, ctx)
        return text


NAME = _Name()


class Seconds(click.FloatRange):
    """Seconds, at most ten years. Rejects NaN, which passes every comparison with a limit."""

    def __init__(self, *, min_open: bool = False) -> None:
        super().__init__(0, 10 * 365 * 86_400, min_open=min_open)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Raises click.BadParameter."""
        seconds = float(super().convert(value, param, ctx))
        return self.fail(f"{value!r} is not a number of seconds", param, ctx) if math.isnan(seconds) else seconds


MAX_DURATION = timedelta(days=3650)


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration such as ``15m``; None for others, also for a number without a unit."""
    from noetl_compiler.language.quantities import parse_duration, parse_number

    return None if parse_number(text) is not None else parse_duration(text)


class _Duration(click.ParamType[Any]):
    """Converts ``15m`` or ``1h`` to a timedelta of at most ten years."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Raises click.BadParameter."""
        if isinstance(value, timedelta):
            return value
        seconds = parse_duration(str(value))
        if seconds is None or not 0 < seconds <= MAX_DURATION.total_seconds():
            return self.fail(
                f"{quote_argument(str(value))} is not a duration with a unit, such as 30s, 15m or 1h", param, ctx
            )
        return timedelta(seconds=seconds)


DURATION = _Duration()


def parse_time(text: str) -> datetime:
    """Parse a date or a time, which is UTC unless it has an offset. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class _Moment(click.ParamType[Any]):
    """Converts a date or a time to a datetime with a time zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Raises click.BadParameter."""
        try:
            return value if isinstance(value, datetime) else parse_time(str(value))
        except ValueError:
            return self.fail(
                f"{quote_argument(str(value))} is not a time, such as 2026-11-23 or 2026-11-23T08:00", param, ctx
            )


MOMENT = _Moment()


def read_sizes(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    """Parse ``STEP=N`` values to step -> size; the last one counts for each step. Raises click.BadParameter."""
    del ctx
    sizes: dict[str, int] = {}
    for text in values:
        step, _, number = text.rpartition("=")
        if not step or not number.isdecimal() or len(number) > len(str(MAX_SIZE)) or int(number) > MAX_SIZE:
            raise click.BadParameter(f"{text!r} is not STEP=N, such as fetch=10000", param=param)
        sizes[step] = int(number)
    return sizes


MAX_AMOUNT = 1_000_000


def read_amounts(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """Parse ``TOOL=N`` values to tool -> positive number; the last one counts for each tool.

    Raises click.BadParameter.
    """
    del ctx
    amounts: dict[str, float] = {}
    for value in values:
        tool, _, number = value.rpartition("=")
        try:
            amount = float(number)
        except ValueError:
            amount = 0.0
        if not tool or not 0 < amount <= MAX_AMOUNT:
            raise click.BadParameter(f"{value!r} is not TOOL=N, such as http=20", param=param)
        amounts[tool] = amount
    return amounts


class _HostAndPort(click.ParamType[Any]):
    """Converts an address to listen on to (host, port). The default host is the loopback."""

    name = "host:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Raises click.BadParameter."""
        host, _, port = str(value).rpartition(":")
        if not port.isdecimal() or not port.isascii() or int(port) > MAX_PORT:
            return self.fail(f"{quote_argument(str(value))} is not HOST:PORT, such as 127.0.0.1:9100", param, ctx)
        return host.strip("[]") or "127.0.0.1", int(port)


HOST_AND_PORT = _HostAndPort()
MAX_PORT = 65_535
