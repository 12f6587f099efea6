"""Limits of the shell and the machine, lowered for the recordings that show what happens there.

A history replays under the limits it was recorded under. The sandbox imports our modules anew for each workflow, so
there they are lowered again, from ``active``: this module is the one that a sandbox shares with the process around it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["Limits", "active", "limited", "lower"]

Limits = Mapping[str, Any]
"""Value by dotted name of a module's constant: ``noetl_temporal.workflows.workflow_host.SOFT_EVENTS``."""

active: dict[str, Any] = {}
"""The limits of the history that is recorded or replayed now."""


@contextmanager
def limited(limits: Limits) -> Generator[None]:
    """Apply these limits inside the block, in this process and in the sandboxes that it creates."""
    before = {name: getattr(_module(name), _constant(name)) for name in limits}
    active.update(limits)
    lower(limits)
    try:
        yield
    finally:
        lower(before)
        active.clear()


def lower(limits: Limits) -> None:
    """Set the constants, in the modules as the caller's process or sandbox has them."""
    for name, value in limits.items():
        setattr(_module(name), _constant(name), value)


def _module(name: str) -> Any:
    return __import__(name.rpartition(".")[0], fromlist=[_constant(name)])


def _constant(name: str) -> str:
    return name.rpartition(".")[2]
