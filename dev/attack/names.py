"""Names with characters that break logs and databases, and paths that lead out of the output folder."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from unittest.mock import patch

from dev.attack.attack import Attack, AttackClass
from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_temporal.cli.output import path_below

__all__ = ["CLASS"]

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
PLAYBOOKS = (
    "metadata: {{name: {}}}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]\n",
    "metadata: {{name: x, path: {}}}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]\n",
    "metadata: {{name: x}}\nworkflow: [{{step: {}, tool: {{kind: noop}}}}]\n",
    "metadata: {{name: x}}\nworkflow: [{{step: start, tool: [{{name: {}, kind: noop}}]}}]\n",
    "metadata: {{name: x}}\nworkflow: [{{step: start, tool: [{{{}: {{kind: noop}}}}]}}]\n",
)
CONTROL_CHARACTERS = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xD800, 0xDFFF)))
FOLDER = Path("/srv/out")
PARTS = ("..", "..", "..", ".", "etc", "passwd", "~", "a", "", " ", "...", "..\\..", "x.yaml")


def _name(rng: random.Random) -> Attack:
    character = rng.choice(CONTROL_CHARACTERS)
    position = rng.randint(0, 3)
    text = HEAD + rng.choice(PLAYBOOKS).format(json.dumps("name"[:position] + character + "name"[position:]))
    return Attack(f"U+{ord(character):04X} in {text.splitlines()[2][:60]}", partial(_is_accepted, text))


def _path(rng: random.Random) -> Attack:
    path = rng.choice(("", "/", "//", "./")) + "/".join(rng.choices(PARTS, k=rng.randint(1, 12)))
    return _path_attack(path)


def _path_attack(path: str) -> Attack:
    return Attack(f"path {path}", partial(_leads_out, path))


class _Guard:
    """The checks of names and paths, while they are on."""

    is_on = True


def _is_accepted(text: str) -> bool:
    """Whether the playbook compiles; without the guard, whether control characters are its only errors."""
    result = compile_text(text)
    if _Guard.is_on:
        return result.graph is not None
    return all(diagnostic.code is Code.CONTROL_CHARACTER for diagnostic in result.diagnostics)


def _leads_out(path: str) -> bool:
    target = path_below(FOLDER, path) if _Guard.is_on else FOLDER / path
    resolved_path = Path("/")
    for part in target.parts[1:]:
        resolved_path = resolved_path.parent if part == ".." else resolved_path / part
    return not resolved_path.is_relative_to(FOLDER)


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    for index in range(count):
        yield (_name, _path)[index % 2](rng)


def _disable_guard() -> AbstractContextManager[object]:
    """Accept playbooks whose only errors are control characters, and join paths to the folder without a check."""
    return patch.object(_Guard, "is_on", False)


CLASS = AttackClass(
    "names",
    _attacks,
    (
        _path_attack("../../etc/passwd"),
        _path_attack("/etc/passwd"),
        Attack("NUL in a path", partial(_is_accepted, HEAD + PLAYBOOKS[1].format('"a\\0b"'))),
    ),
    _disable_guard,
)
