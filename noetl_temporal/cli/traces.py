"""What commands that submit say of traces."""

from __future__ import annotations

import click

from noetl_temporal.tracing import tracing_problem

__all__ = ["warn_of_missing_traces"]


def warn_of_missing_traces() -> None:
    """Say why there are none, although the environment asks for them."""
    problem = tracing_problem()
    if problem is not None:
        click.echo(f"warning: {problem}", err=True)
