"""What an attack is, and a class of attacks on one guard.

A class generates its attacks from a seed, so a successful one can be repeated. Controls show that "all were stopped"
means something: they are attacks that must succeed while the guard is switched off.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

__all__ = ["THROUGH", "Attack", "AttackClass", "nothing_is_missing"]

THROUGH = "got through"
"""The report of an attack that succeeded."""


class Attack(NamedTuple):
    """``gets_through`` is False when the guard refused the attack or made it harmless. An exception, the end of the
    process and exceeding the time limit count as getting through.

    A control has to show its ``effect``: that it gets through, or otherwise the beginning of its message, such
    as the name of an exception that the guard prevents. Whatever else it raises means that the control is broken.
    """

    description: str
    gets_through: Callable[[], bool]
    effect: str = THROUGH


def nothing_is_missing() -> str:
    """Return that nothing is missing, for a class that runs on every platform."""
    return ""


class AttackClass(NamedTuple):
    """``attacks`` generates the given number of attacks, ``controls`` get through inside ``disable_guard``. All of them
    run inside ``site``, which is entered once in the attacking process and has the servers, files and processes that
    they need. Attacks are generated without it. ``missing`` returns what this machine lacks to stop them; then none
    is run.
    """

    name: str
    attacks: Callable[[random.Random, int], Iterable[Attack]]
    controls: tuple[Attack, ...]
    disable_guard: Callable[[], AbstractContextManager[object]]
    site: Callable[[], AbstractContextManager[object]] = nullcontext
    missing: Callable[[], str] = nothing_is_missing
