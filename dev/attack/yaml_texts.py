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
GROWTH_LIMIT = 10_000_000
"""The length in characters from which a text that was loaded counts as having grown."""

_executed_tags: list[str] = []


def run(description: str) -> None:
    """Record that a tag has run code."""
    _executed_tags.append(description)


def _aliases(rng: random.Random) -> str:
    width, levels = rng.randint(8, 14), rng.randint(7, 40)
    lists = (f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels))
    return "{a0: &a0 [x, x], " + ", ".join(lists) + "}"


def _merges(rng: random.Random) -> str:
    keys, times = rng.randint(200, 1000), rng.randint(1000, 9999)
    return "{m: &m {" + ",".join(f"k{n}: 1" for n in range(keys)) + "}, b: {<<: [" + "*m," * times + "]}}"


def _nested_merges(rng: random.Random) -> str:
    depth, keys = rng.randint(50, 90), rng.randint(5_000, 90_000)
    return "{<<: " * depth + "{" + ",".join(f"k{n}: 1" for n in range(keys)) + "}" * (depth + 1)


def _text_aliases(rng: random.Random) -> str:
    times = rng.randint(30, 3000)
    return "[&t " + "x" * (3_000_000 // times + 1000) * 10 + ", " + "*t," * times + "]"


def _self_alias(rng: random.Random) -> str:
    return "&s [" + "[" * (depth := rng.randint(0, 50)) + "*s" + "]" * depth + "]"


def _deep(rng: random.Random) -> str:
    opening, closing = rng.choice((("[", "]"), ("{a: ", "}"), ("[{a: ", "}]"), ("- ", ""), ("? ", ""), ("[", "")))
    depth = rng.randint(101, 400_000)
    return opening * depth + closing * depth


def _dense(rng: random.Random) -> str:
    piece = rng.choice(("[],", "{},", "1,", "a,", "'',", "~,"))
    return "[" + piece * rng.randint(700_000, 1_300_000) + "]"


def _dense_lists(rng: random.Random) -> str:
    inner = "[" + "[]," * (size := rng.randint(300, 3000)) + "],"
    return "[" + inner * (4_000_000 // (3 * size)) + "]"


def _tag(rng: random.Random) -> str:
    kind = rng.choice(
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
    return f"{kind} [tag{rng.randrange(1000)}]"


def _number(rng: random.Random) -> str:
    prefix, digit = rng.choice((("", "9"), ("", "1:"), ("0x", "f"), ("", "1_")))
    return prefix + digit * rng.randint(200, 100_000) + "1"


def _invalid_text(rng: random.Random) -> str:
    return rng.choice(
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
    *(
        _aliases,
        _merges,
        _nested_merges,
        _text_aliases,
        _self_alias,
        _deep,
        _dense,
        _dense_lists,
        _tag,
        _number,
        _invalid_text,
    ),
)


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    """Yield texts of all makers in turn."""
    for index in range(count):
        make = MAKERS[index % len(MAKERS)]
        text = make(rng)
        yield _attack(f"{make.__name__.strip('_')}: {text[:60]}", text)


def _attack(description: str, text: str) -> Attack:
    return Attack(description, partial(_gets_through, text))


def _compiles(text: str) -> bool:
    return compile_text(HEAD + text).graph is not None


def _loads(text: str) -> bool:
    """Whether the text grows when it is loaded by an unsafe loader and written as JSON."""
    return len(json.dumps(yaml.unsafe_load(text))) > GROWTH_LIMIT


class _Guard:
    """The reader of the text, which returns whether the text got through."""

    read = staticmethod(_compiles)


def _gets_through(text: str) -> bool:
    _executed_tags.clear()
    return _Guard.read(text) or bool(_executed_tags)


def _disable_guard() -> AbstractContextManager[object]:
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
    _disable_guard,
)
