"""Forged reports that the code of a python task writes: too many values, too deep, none, or invalid ones."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import NamedTuple
from unittest.mock import patch

from dev.attack.attack import Attack, AttackClass
from dev.attack.tool_calls import call
from noetl_activities.errors import ToolError
from noetl_activities.isolation import processes
from noetl_activities.python import tool as python
from noetl_activities.python.tool import TOOL

__all__ = ["CLASS"]

WRITES = """
import os, sys
answer = start + piece * times + end
descriptor = int(sys.argv[1])
data = answer.encode("latin-1")
while data:
    data = data[os.write(descriptor, data):]
os._exit(0)
"""
"""Code that writes to the descriptor of the report before the real report."""


class Report(NamedTuple):
    """The text of a report: ``start``, ``piece`` repeated ``times`` times, and ``end``."""

    start: str
    piece: str
    times: int
    end: str


RESULT = '{"ok": true, "result": '


def _dense(rng: random.Random) -> Report:
    piece = rng.choice(("[],", "{},", "0,", '"",', "[[]],"))
    times = rng.randint(python.MAX_VALUES + 1, 60_000_000 // len(piece))
    return Report(f"{RESULT}[", piece, times, "0]}")


def _large(rng: random.Random) -> Report:
    return Report(f'{RESULT}"', "x", rng.randint(65, 99) * 2**20, '"}')


def _deep(rng: random.Random) -> Report:
    return Report(RESULT, rng.choice(("[", '{"a":', '[{"a":[')), rng.randint(2_000, 200_000), "")


def _deep_valid_report(rng: random.Random) -> Report:
    """Return a valid report with deep lists."""
    depth = rng.randint(10_000, 200_000)
    return Report(f"{RESULT}{'[' * depth}", "]", depth, "}")


def _invalid_report(rng: random.Random) -> Report:
    digits = "9" * rng.randint(4301, 9999)
    failure = '{"ok": false, "type": %s, "message": %s, "traceback": %s}'
    text = rng.choice(
        (
            *("", "[]", "1", "null", '"ok"', "{", "{}", '{"ok": true}', '{"ok": 1, "result": 1}', '{"ok": "true"}'),
            *(failure % ("1", '"a"', '"b"'), failure % ('"a"', "null", '"b"'), failure % ('"a"', '"b"', "[]")),
            *(f"{RESULT}{digits}}}", f"{RESULT}1}}{RESULT}2}}", '{"ok": false, "too_deep": 1}', "\xff\xfe", "\x80"),
            *('{"ok": false}', '{"ok": null, "result": 1}', '{"result": 1}', "\0"),
        )
    )
    return Report(text, " ", rng.randint(0, 9999), "")


MAKERS: tuple[Callable[[random.Random], Report], ...] = (_dense, _deep, _invalid_report, _large, _deep_valid_report)


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    for index in range(count):
        make = MAKERS[index % len(MAKERS)]
        report = make(rng)
        name = f"{report.start[:40]}, {report.times} times {report.piece}"
        yield Attack(f"{make.__name__.strip('_')}: {name}", partial(_gets_through, report))


def _gets_through(report: Report) -> bool:
    """Whether the report is accepted as a result. Exceptions other than refusals count as well."""
    try:
        outcome = asyncio.run(call(TOOL, {"code": WRITES}, given=report._asdict()))
        json.dumps(outcome.result)
    except ToolError:
        return False
    return outcome.status == "ok"


def _is_within(*_: object) -> bool:
    return False


def _disable_guard() -> AbstractContextManager[object]:
    """Remove the limits on values and bytes."""
    guards = ExitStack()
    guards.enter_context(patch.object(python, "has_more_values", _is_within))
    guards.enter_context(patch.object(processes, "_MAX_RESPONSE_BYTES", 2**30))
    return guards


CLASS = AttackClass(
    "task_answers",
    _attacks,
    (
        Attack("five million lists", partial(_gets_through, Report(f"{RESULT}[", "[],", 5_000_000, "0]}"))),
        Attack("a text of 65 MB", partial(_gets_through, Report(f'{RESULT}"', "x", 65 * 2**20, '"}'))),
    ),
    _disable_guard,
)
