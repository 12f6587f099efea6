"""Numbers on the command line, within the limits of Temporal, Postgres and timers."""

from __future__ import annotations

import math
from typing import Any

import click

from noetl_temporal.ids import LARGEST_ID, LENGTHS, SHORTEST_PREFIX, exact_id

__all__ = ["LARGEST_SIZE", "RUN_ID", "Seconds", "read_sizes"]

LONGEST_NAME = 1000
"""Characters of a workflow id that Temporal takes."""

LONGEST_SHOWN = 200

LARGEST_SIZE = 10**12
"""The largest number of items, pages or bytes in a forecast."""


class _RunId(click.ParamType[Any]):
    """The ID of a run: an execution id, as an int, or a text by which it has to be looked up (cli/named_run.py)."""

    name = "run"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Raises click.BadParameter."""
        if isinstance(value, int):
            return value
        text = str(value)
        if text.isdecimal() and len(text) >= LENGTHS[0] and (len(text) > LENGTHS[-1] or int(text) > LARGEST_ID):
            return self.fail(f"{_shown(text)} is not a run ID: these have 64 bits", param, ctx)
        whole = exact_id(text)
        if whole is not None:
            return whole
        if len(text) < SHORTEST_PREFIX or len(text) > LONGEST_NAME or not text.isprintable():
            return self.fail(
                f"{_shown(text)} is not a run ID, such as 754318462739161088, or its first "
                f"{SHORTEST_PREFIX} characters",
                param,
                ctx,
            )
        return text


RUN_ID = _RunId()


def _shown(text: str) -> str:
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}...")


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
