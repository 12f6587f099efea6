"""What an attack is, and a class of attacks on one guard.

A class generates its attacks from a seed, so that one which gets through can be run again. So that "all were stopped"
means something, it has controls: attacks that must get through while its guard is switched off.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple

__all__ = ["Attack", "AttackClass"]


class Attack(NamedTuple):
    """``gets_through`` is False when the guard refused in its own words or did its work. What it raises, a process that
    ends or takes longer than it may count as getting through.
    """

    what: str
    gets_through: Callable[[], bool]


class AttackClass(NamedTuple):
    """``attacks`` generates so many, ``controls`` get through inside of ``unguarded``."""

    name: str
    attacks: Callable[[random.Random, int], Iterable[Attack]]
    controls: tuple[Attack, ...]
    unguarded: Callable[[], AbstractContextManager[object]]
