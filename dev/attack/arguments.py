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


def _deep_payload(rng: random.Random) -> Arguments:
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}"), ('[{"a":[', "]}]"), ("[", "")))
    depth = rng.randint(101, 200_000)
    return Arguments('{"a":' + opening * depth + "1" + closing * depth + "}")


def _dense_payload(rng: random.Random) -> Arguments:
    piece = rng.choice(("[],", "{},", "1,", '"",', "[[]],", '{"":0},'))
    return Arguments('{"a":[' + piece * rng.randint(1_000_001, 1_500_000) + "1]}")


def _wrong_payload(rng: random.Random) -> Arguments:
    digits = str(rng.randint(1, 9)) * rng.randint(400, 9999)
    values = (
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
    return Arguments('{"a": ' + rng.choice(values) + "}")


def _non_object_payload(rng: random.Random) -> Arguments:
    return Arguments(rng.choice(("[1]", "1", "null", '"a"', "[" * 50 + "]" * 50, "\0", "\x1b", "{" * 3, "@")))


def _non_file_payload(rng: random.Random) -> Arguments:
    return Arguments(
        "@" + rng.choice((_pipe(), "/dev/zero", "/dev/tty", "/dev/stdin", "/proc/self/mem", "/", "\udcff"))
    )


def _pipe() -> str:
    """Return the path of a pipe to which nobody writes."""
    path = Path(tempfile.gettempdir(), f"noetl-attack-{os.getpid()}.pipe")
    if not path.exists():
        os.mkfifo(path)
    return str(path)


def _deep_setting(rng: random.Random) -> Arguments:
    names = rng.randint(1, 20_000)
    depth = rng.randint(max(0, 101 - names), 20_000)
    opening, closing = rng.choice((("[", "]"), ("{a: ", "}"), ("[", "")))
    return Arguments(settings=(".".join(["a"] * names) + "=" + opening * depth + closing * depth,))


def _growing_setting(rng: random.Random) -> Arguments:
    width, levels = rng.randint(8, 14), rng.randint(6, 12)
    lists = (f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels))
    return Arguments(settings=("a={a0: &a0 [x, x], " + ", ".join(lists) + "}",))


def _many_settings(rng: random.Random) -> Arguments:
    value = "{x: &a [" + "1," * 3000 + "], y: [" + "*a," * 30 + "]}"
    return Arguments(settings=tuple(f"a{index}={value}" for index in range(rng.randint(12, 16))))


def _merging_setting(rng: random.Random) -> Arguments:
    depth, keys = rng.randint(50, 90), rng.randint(5_000, 9_000)
    return Arguments(
        settings=("a=" + "{<<: " * depth + "{" + ",".join(f"k{n}: 1" for n in range(keys)) + "}" * (depth + 1),)
    )


def _wrong_setting(rng: random.Random) -> Arguments:
    invalid = ("=1", "a", "a..b=1", "." * 20_000 + "=1", "a=!!python/name:os.system x", "a=[1", "a=.nan", "a=&x [*x]")
    unprintable = (
        "a.\x1b[2J=1",
        "a.\udcff=1",
        "a.\u202e=1",
        "a=\x1b[2J",
        "a=\udcff",
        "a=\0",
        "a=" + "9" * 5000,
        "a=1\n---\n2",
    )
    return Arguments(settings=(rng.choice((*invalid, *unprintable)),))


MAKERS: tuple[Callable[[random.Random], Arguments], ...] = (
    *(_deep_payload, _dense_payload, _wrong_payload, _non_object_payload, _non_file_payload),
    *(_deep_setting, _growing_setting, _many_settings, _merging_setting, _wrong_setting),
)


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    for index in range(count):
        make = MAKERS[index % len(MAKERS)]
        arguments = make(rng)
        payload = arguments.payload or " ".join(arguments.settings)
        yield Attack(f"{make.__name__.strip('_')}: {payload[:60]}", partial(_gets_through, arguments))


def _gets_through(arguments: Arguments) -> bool:
    """Whether a run would start. Any other exception than a refusal is raised, and counts as a success."""
    try:
        json.dumps(read_payload(arguments.payload, arguments.settings)).encode()
    except click.UsageError as refusal:
        return len(refusal.message) > 1000
    return True


@contextmanager
def _disable_guard() -> Generator[None]:
    """Disable the limits that are checked before parsing, and the check for regular files."""
    excess = patch.object(json_limits, "exceeded_limit", _nothing_is_too_much)
    refuse = patch.object(regular_file, "require_regular", _refuse_nothing)
    with excess, refuse:
        yield


def _nothing_is_too_much(_text: str) -> None:
    return None


def _refuse_nothing(_path: Path, _status: os.stat_result) -> None:
    pass


def _reads_pipe() -> bool:
    """Whether a pipe with a payload in it is read."""
    path = Path(_pipe())
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        path.write_text('{"a": 1}')
        return _gets_through(Arguments(f"@{path}"))
    finally:
        os.close(descriptor)


def _reads_device() -> bool:
    """Whether a terminal is read at which somebody has typed a payload and its end."""
    keyboard, terminal = os.openpty()
    try:
        os.write(keyboard, b'{"a": 1}\n\x04')
        return _gets_through(Arguments(f"@{os.ttyname(terminal)}"))
    finally:
        os.close(keyboard)
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
    _disable_guard,
)
