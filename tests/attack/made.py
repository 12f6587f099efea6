"""Attacks of which it is known what comes of them, in a module that the attacking process can import."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Generator
from contextlib import contextmanager

from dev.attack.attack import Attack, AttackClass

__all__ = ["BROKEN_CLASS", "CONTROLS", "CONTROL_CLASS", "MISSING"]


def _stop() -> bool:
    return False


def _endless() -> bool:
    while True:
        time.monotonic()


def _gone() -> bool:
    os._exit(3)


def _failing() -> bool:
    raise KeyError("no words of ours")


def _successful() -> bool:
    return True


def _attacks(_chance: random.Random, _count: int) -> list[Attack]:
    return [Attack(way.__name__.strip("_"), way) for way in (_stop, _endless, _gone, _failing, _successful)]


@contextmanager
def _nothing() -> Generator[None]:
    yield


CONTROL_CLASS = AttackClass("made", _attacks, (Attack("control", _stop),), _nothing)


@contextmanager
def _failing_switch() -> Generator[None]:
    _failing()
    yield


def _none(_chance: random.Random, _count: int) -> list[Attack]:
    return []


def _absent() -> str:
    return "no such kernel"


BROKEN_CLASS = CONTROL_CLASS._replace(name="broken", attacks=_none, disable_guard=_failing_switch)
CONTROLS = CONTROL_CLASS._replace(
    name="controls",
    attacks=_none,
    controls=(
        Attack("shown", _successful),
        Attack("failing as it says", _failing, effect="KeyError"),
        Attack("failing", _failing),
        Attack("slow", _endless),
        Attack("gone", _gone),
        Attack("through without its effect", _successful, effect="RecursionError"),
    ),
)
MISSING = CONTROL_CLASS._replace(name="missing", missing=_absent)
