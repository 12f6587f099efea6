"""Sizes given on the command line, by step: ``--items fetch=10000``."""

from __future__ import annotations

import click

from noetl_temporal.cli.arguments import LARGEST_SIZE

__all__ = ["read_sizes"]


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
