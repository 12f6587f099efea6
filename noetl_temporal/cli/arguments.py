"""Numbers on the command line, within the limits of Temporal, Postgres and timers."""

from __future__ import annotations

import math
from typing import Any, cast

import click

__all__ = ["EXECUTION_ID", "LARGEST_ID", "LARGEST_SIZE", "Seconds", "read_sizes"]

LARGEST_ID = 2**63 - 1
"""Execution ids are Postgres's bigint."""

LARGEST_SIZE = 10**12
"""The largest number of items, pages or bytes in a forecast."""


class _ExecutionId(click.IntRange):
    """The id of a run."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Raises click.BadParameter."""
        if isinstance(value, str) and not value.removeprefix("-").isdecimal():
            return self.fail(f"{value!r} is not a run ID, such as 754318462739161088", param, ctx)
        return int(super().convert(cast("Any", value), param, ctx))


EXECUTION_ID = _ExecutionId(0, LARGEST_ID)


class Seconds(click.FloatRange):
    """A time of at most ten years. Refuses infinity and NaN, which passes every comparison with a limit."""

    def __init__(self, *, min_open: bool = False) -> None:
        super().__init__(0, 10 * 365 * 86_400, min_open=min_open)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Raises click.BadParameter."""
        found = float(super().convert(value, param, ctx))
        return self.fail(f"{value!r} is not a number of seconds", param, ctx) if math.isnan(found) else found


def read_sizes(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, int]:
    """The values of an option as step -> size, the last one for each step. Raises click.BadParameter."""
    del ctx
    sizes: dict[str, int] = {}
    for one in given:
        step, _, number = one.rpartition("=")
        if not step or not number.isdecimal() or len(number) > len(str(LARGEST_SIZE)) or int(number) > LARGEST_SIZE:
            raise click.BadParameter(f"{one!r} is not STEP=N, such as fetch=10000", param=param)
        sizes[step] = int(number)
    return sizes
