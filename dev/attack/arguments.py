"""``--payload`` and ``--set`` that are nested too deeply, too large, invalid JSON, or not files."""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import click

from dev.attack.attack import Attack, AttackClass
from noetl_activities import json_limits
from noetl_compiler import regular_file
from noetl_temporal.cli.payload import read_payload

__all__ = ["CLASS"]


class Arguments(NamedTuple):
    """The arguments on the command line."""

    payload: str | None = None
    settings: tuple[str, ...] = ()


def _deep_payload(chance: random.Random) -> Arguments:
    opening, closing = chance.choice((("[", "]"), ('{"a":', "}"), ('[{"a":[', "]}]"), ("[", "")))
    depth = chance.randint(101, 200_000)
    return Arguments('{"a":' + opening * depth + "1" + closing * depth + "}")


def _dense_payload(chance: random.Random) -> Arguments:
    piece = chance.choice(("[],", "{},", "1,", '"",', "[[]],", '{"":0},'))
    return Arguments('{"a":[' + piece * chance.randint(1_000_001, 1_500_000) + "1]}")


def _wrong_payload(chance: random.Random) -> Arguments:
    digits = str(chance.randint(1, 9)) * chance.randint(400, 9999)
    wrong = (
        digits,
        f"{digits}.5",
        "1e999",
        "-Infinity",
        "NaN",
        '"\\ud800"',
        '"\\u12"',
        "'a'",
        "[1,]",
        '"' + '\\"' * 9999,
    )
    return Arguments('{"a": ' + chance.choice(wrong) + "}")


def _no_object(chance: random.Random) -> Arguments:
    return Arguments(chance.choice(("[1]", "1", "null", '"a"', "[" * 50 + "]" * 50, "\0", "\x1b", "{" * 3, "@")))


def _no_file(chance: random.Random) -> Arguments:
    return Arguments(
        "@" + chance.choice((_pipe(), "/dev/zero", "/dev/tty", "/dev/stdin", "/proc/self/mem", "/", "\udcff"))
    )


def _pipe() -> str:
    """Nobody writes to it."""
    path = Path(tempfile.gettempdir(), f"noetl-attack-{os.getpid()}.pipe")
    if not path.exists():
        os.mkfifo(path)
    return str(path)


def _deep_setting(chance: random.Random) -> Arguments:
    names = chance.randint(1, 20_000)
    depth = chance.randint(max(0, 101 - names), 20_000)
    opening, closing = chance.choice((("[", "]"), ("{a: ", "}"), ("[", "")))
    return Arguments(settings=(".".join(["a"] * names) + "=" + opening * depth + closing * depth,))


def _growing_setting(chance: random.Random) -> Arguments:
    width, levels = chance.randint(8, 14), chance.randint(6, 12)
    listed = (f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels))
    return Arguments(settings=("a={a0: &a0 [x, x], " + ", ".join(listed) + "}",))


def _many_settings(chance: random.Random) -> Arguments:
    value = "{x: &a [" + "1," * 3000 + "], y: [" + "*a," * 30 + "]}"
    return Arguments(settings=tuple(f"a{index}={value}" for index in range(chance.randint(12, 16))))


def _merging_setting(chance: random.Random) -> Arguments:
    depth, keys = chance.randint(50, 90), chance.randint(5_000, 9_000)
    return Arguments(
        settings=("a=" + "{<<: " * depth + "{" + ",".join(f"k{n}: 1" for n in range(keys)) + "}" * (depth + 1),)
    )


def _wrong_setting(chance: random.Random) -> Arguments:
    wrong = ("=1", "a", "a..b=1", "." * 20_000 + "=1", "a=!!python/name:os.system x", "a=[1", "a=.nan", "a=&x [*x]")
    odd = ("a.\x1b[2J=1", "a.\udcff=1", "a.\u202e=1", "a=\x1b[2J", "a=\udcff", "a=\0", "a=" + "9" * 5000, "a=1\n---\n2")
    return Arguments(settings=(chance.choice((*wrong, *odd)),))


MAKERS: tuple[Callable[[random.Random], Arguments], ...] = (
    *(_deep_payload, _dense_payload, _wrong_payload, _no_object, _no_file),
    *(_deep_setting, _growing_setting, _many_settings, _merging_setting, _wrong_setting),
)


def _attacks(chance: random.Random, count: int) -> Iterator[Attack]:
    for index in range(count):
        make = MAKERS[index % len(MAKERS)]
        given = make(chance)
        payload = given.payload or " ".join(given.settings)
        yield Attack(f"{make.__name__.strip('_')}: {payload[:60]}", partial(_gets_through, given))


def _gets_through(given: Arguments) -> bool:
    """Whether a run would start. Any other exception than a refusal is raised, and counts as a success."""
    try:
        json.dumps(read_payload(given.payload, given.settings)).encode()
    except click.UsageError as refusal:
        return len(refusal.message) > 1000
    return True


@contextmanager
def _unguarded() -> Generator[None]:
    """Without what is counted before parsing, and with anything taken for a file."""
    excess = patch.object(json_limits, "exceeded_limit", _nothing_is_too_much)
    refuse = patch.object(regular_file, "require_regular", _refuse_nothing)
    with excess, refuse:
        yield


def _nothing_is_too_much(_text: str) -> None:
    return None


def _refuse_nothing(_path: Path, _status: os.stat_result) -> None:
    pass


def _reads_pipe() -> bool:
    """One with a payload in it."""
    path = Path(_pipe())
    kept = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        path.write_text('{"a": 1}')
        return _gets_through(Arguments(f"@{path}"))
    finally:
        os.close(kept)


def _reads_device() -> bool:
    """A terminal at which somebody has typed a payload and its end."""
    typed, terminal = os.openpty()
    try:
        os.write(typed, b'{"a": 1}\n\x04')
        return _gets_through(Arguments(f"@{os.ttyname(terminal)}"))
    finally:
        os.close(typed)
        os.close(terminal)


CLASS = AttackClass(
    "arguments",
    _attacks,
    (
        Attack(
            "100,000 levels",
            partial(_gets_through, Arguments('{"a":' + "[" * 100_000 + "]" * 100_000 + "}")),
            effect="RecursionError",
        ),
        Attack("a million lists", partial(_gets_through, Arguments('{"a":[' + "[]," * 1_000_001 + "1]}"))),
        Attack("a pipe", _reads_pipe),
        Attack("a device", _reads_device),
    ),
    _unguarded,
)
