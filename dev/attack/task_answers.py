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
from noetl_activities import python
from noetl_activities.errors import ToolError
from noetl_activities.isolation import processes
from noetl_activities.python import TOOL

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


class Answer(NamedTuple):
    """``start``, then ``piece`` so many ``times``, then ``end``."""

    start: str
    piece: str
    times: int
    end: str


RESULT = '{"ok": true, "result": '


def _dense(chance: random.Random) -> Answer:
    piece = chance.choice(("[],", "{},", "0,", '"",', "[[]],"))
    times = chance.randint(python.MAX_VALUES + 1, 60_000_000 // len(piece))
    return Answer(f"{RESULT}[", piece, times, "0]}")


def _large(chance: random.Random) -> Answer:
    return Answer(f'{RESULT}"', "x", chance.randint(65, 99) * 2**20, '"}')


def _deep(chance: random.Random) -> Answer:
    return Answer(RESULT, chance.choice(("[", '{"a":', '[{"a":[')), chance.randint(2_000, 200_000), "")


def _closed(chance: random.Random) -> Answer:
    """Of as many levels as may be counted, and whole."""
    depth = chance.randint(10_000, 200_000)
    return Answer(f"{RESULT}{'[' * depth}", "]", depth, "}")


def _wrong(chance: random.Random) -> Answer:
    digits = "9" * chance.randint(4301, 9999)
    failed = '{"ok": false, "type": %s, "message": %s, "traceback": %s}'
    wrong = chance.choice(
        (
            *("", "[]", "1", "null", '"ok"', "{", "{}", '{"ok": true}', '{"ok": 1, "result": 1}', '{"ok": "true"}'),
            *(failed % ("1", '"a"', '"b"'), failed % ('"a"', "null", '"b"'), failed % ('"a"', '"b"', "[]")),
            *(f"{RESULT}{digits}}}", f"{RESULT}1}}{RESULT}2}}", '{"ok": false, "too_deep": 1}', "\xff\xfe", "\x80"),
            *('{"ok": false}', '{"ok": null, "result": 1}', '{"result": 1}', "\0"),
        )
    )
    return Answer(wrong, " ", chance.randint(0, 9999), "")


MAKERS: tuple[Callable[[random.Random], Answer], ...] = (_dense, _deep, _wrong, _large, _closed)


def _attacks(chance: random.Random, count: int) -> Iterator[Attack]:
    for index in range(count):
        make = MAKERS[index % len(MAKERS)]
        made = make(chance)
        name = f"{made.start[:40]}, {made.times} times {made.piece}"
        yield Attack(f"{make.__name__.strip('_')}: {name}", partial(_gets_through, made))


def _gets_through(made: Answer) -> bool:
    """Whether the report is accepted as a result. Exceptions other than refusals count as well."""
    try:
        outcome = asyncio.run(call(TOOL, {"code": WRITES}, given=made._asdict()))
        json.dumps(outcome.result)
    except ToolError:
        return False
    return outcome.status == "ok"


def _is_within(*_: object) -> bool:
    return False


def _unguarded() -> AbstractContextManager[object]:
    """Without a limit on values and on bytes."""
    guards = ExitStack()
    guards.enter_context(patch.object(python, "has_more_values", _is_within))
    guards.enter_context(patch.object(processes, "_MAX_RESPONSE", 2**30))
    return guards


CLASS = AttackClass(
    "task_answers",
    _attacks,
    (
        Attack("five million lists", partial(_gets_through, Answer(f"{RESULT}[", "[],", 5_000_000, "0]}"))),
        Attack("a text of 65 MB", partial(_gets_through, Answer(f'{RESULT}"', "x", 65 * 2**20, '"}'))),
    ),
    _unguarded,
)
