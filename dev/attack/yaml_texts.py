"""YAML that runs code, grows when it is written out, nests without end, or is made of very little many times."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from unittest.mock import patch

import yaml

from dev.attack.attack import Attack, AttackClass
from noetl_compiler import compile_text

__all__ = ["CLASS", "run"]

HEAD = """apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: x, path: x}
workflow:
  - step: start
    tool: {kind: noop}
workload:
  a: """
GROWN = 10_000_000
"""Characters that a text of some hundred may grow to where nothing bounds it."""

_ran: list[str] = []


def run(what: str) -> None:
    """What a tag calls that runs code."""
    _ran.append(what)


def _aliases(chance: random.Random) -> str:
    width, levels = chance.randint(8, 14), chance.randint(7, 40)
    listed = (f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels))
    return "{a0: &a0 [x, x], " + ", ".join(listed) + "}"


def _merges(chance: random.Random) -> str:
    keys, times = chance.randint(200, 1000), chance.randint(1000, 9999)
    return "{m: &m {" + ",".join(f"k{n}: 1" for n in range(keys)) + "}, b: {<<: [" + "*m," * times + "]}}"


def _nested_merges(chance: random.Random) -> str:
    depth, keys = chance.randint(50, 90), chance.randint(5_000, 90_000)
    return "{<<: " * depth + "{" + ",".join(f"k{n}: 1" for n in range(keys)) + "}" * (depth + 1)


def _text_aliases(chance: random.Random) -> str:
    times = chance.randint(30, 3000)
    return "[&t " + "x" * (3_000_000 // times + 1000) * 10 + ", " + "*t," * times + "]"


def _self_alias(chance: random.Random) -> str:
    return "&s [" + "[" * (depth := chance.randint(0, 50)) + "*s" + "]" * depth + "]"


def _deep(chance: random.Random) -> str:
    opening, closing = chance.choice((("[", "]"), ("{a: ", "}"), ("[{a: ", "}]"), ("- ", ""), ("? ", ""), ("[", "")))
    depth = chance.randint(101, 400_000)
    return opening * depth + closing * depth


def _dense(chance: random.Random) -> str:
    piece = chance.choice(("[],", "{},", "1,", "a,", "'',", "~,"))
    return "[" + piece * chance.randint(700_000, 1_300_000) + "]"


def _dense_lists(chance: random.Random) -> str:
    inner = "[" + "[]," * (size := chance.randint(300, 3000)) + "],"
    return "[" + inner * (4_000_000 // (3 * size)) + "]"


def _tag(chance: random.Random) -> str:
    kind = chance.choice(
        (
            "!!python/object/apply:dev.attack.yaml_texts.run",
            "!!python/object/new:dev.attack.yaml_texts.run",
            "!!python/name:dev.attack.yaml_texts.run",
            "!!python/module:dev.attack",
            "!!binary",
            "!!set",
            "!!omap",
            "!include",
            "!ENV",
            "!<tag:yaml.org,2002:python/object/apply:dev.attack.yaml_texts.run>",
        )
    )
    return f"{kind} [tag{chance.randrange(1000)}]"


def _number(chance: random.Random) -> str:
    first, digit = chance.choice((("", "9"), ("", "1:"), ("0x", "f"), ("", "1_")))
    return first + digit * chance.randint(200, 100_000) + "1"


def _odd(chance: random.Random) -> str:
    return chance.choice(
        (
            "x\0y",
            "\x1b[2J",
            "[\ud800]",
            "1\n---\nb: 1",
            "'" + "x" * 99_999,
            "{a: 1, a: 2}",
            "{[a]: 1}",
            "*nowhere",
            ".nan",
        )
    )


MAKERS: tuple[Callable[[random.Random], str], ...] = (
    *(_aliases, _merges, _nested_merges, _text_aliases, _self_alias, _deep, _dense, _dense_lists, _tag, _number, _odd),
)


def _attacks(chance: random.Random, count: int) -> Iterator[Attack]:
    """All makers in turn."""
    for index in range(count):
        make = MAKERS[index % len(MAKERS)]
        text = make(chance)
        yield _attack(f"{make.__name__.strip('_')}: {text[:60]}", text)


def _attack(what: str, text: str) -> Attack:
    return Attack(what, partial(_gets_through, text))


def _compiles(text: str) -> bool:
    return compile_text(HEAD + text).graph is not None


def _loads(text: str) -> bool:
    """With a loader that trusts its text, written out as a request to a server would be."""
    return len(json.dumps(yaml.unsafe_load(text))) > GROWN


class _Guard:
    """What reads the text; true when it went through."""

    read = staticmethod(_compiles)


def _gets_through(text: str) -> bool:
    _ran.clear()
    return _Guard.read(text) or bool(_ran)


def _unguarded() -> AbstractContextManager[object]:
    return patch.object(_Guard, "read", staticmethod(_loads))


CLASS = AttackClass(
    "yaml",
    _attacks,
    (
        _attack("a tag that runs code", "!!python/object/apply:dev.attack.yaml_texts.run [x]"),
        _attack(
            "a bomb of aliases",
            "{a0: &a0 [x], " + ", ".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 8)) + "}",
        ),
        _attack("brackets", "[" * 100_000 + "]" * 100_000)._replace(effect="RecursionError"),
    ),
    _unguarded,
)
