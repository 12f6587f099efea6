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
PLACES = (
    "metadata: {{name: {}}}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]\n",
    "metadata: {{name: x, path: {}}}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]\n",
    "metadata: {{name: x}}\nworkflow: [{{step: {}, tool: {{kind: noop}}}}]\n",
    "metadata: {{name: x}}\nworkflow: [{{step: start, tool: [{{name: {}, kind: noop}}]}}]\n",
    "metadata: {{name: x}}\nworkflow: [{{step: start, tool: [{{{}: {{kind: noop}}}}]}}]\n",
)
CONTROLS = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xD800, 0xDFFF)))
FOLDER = Path("/srv/out")
PARTS = ("..", "..", "..", ".", "etc", "passwd", "~", "a", "", " ", "...", "..\\..", "x.yaml")


def _name(chance: random.Random) -> Attack:
    odd = chance.choice(CONTROLS)
    at = chance.randint(0, 3)
    text = HEAD + chance.choice(PLACES).format(json.dumps("name"[:at] + odd + "name"[at:]))
    return Attack(f"U+{ord(odd):04X} in {text.splitlines()[2][:60]}", partial(_compiles, text))


def _path(chance: random.Random) -> Attack:
    path = chance.choice(("", "/", "//", "./")) + "/".join(chance.choices(PARTS, k=chance.randint(1, 12)))
    return _of_path(path)


def _of_path(path: str) -> Attack:
    return Attack(f"path {path}", partial(_leads_out, path))


class _Guard:
    """What reads a playbook and says where a file of that name is written."""

    is_on = True


def _compiles(text: str) -> bool:
    result = compile_text(text)
    if _Guard.is_on:
        return result.graph is not None
    return all(diagnostic.code is Code.CONTROL_CHARACTER for diagnostic in result.diagnostics)


def _leads_out(path: str) -> bool:
    target = path_below(FOLDER, path) if _Guard.is_on else FOLDER / path
    resolved = Path("/")
    for part in target.parts[1:]:
        resolved = resolved.parent if part == ".." else resolved / part
    return not resolved.is_relative_to(FOLDER)


def _attacks(chance: random.Random, count: int) -> Iterator[Attack]:
    for index in range(count):
        yield (_name, _path)[index % 2](chance)


def _unguarded() -> AbstractContextManager[object]:
    """Nothing but control characters keeps the playbook from compiling; a path is put to the folder as it is."""
    return patch.object(_Guard, "is_on", False)


CLASS = AttackClass(
    "names",
    _attacks,
    (
        _of_path("../../etc/passwd"),
        _of_path("/etc/passwd"),
        Attack("NUL in a path", partial(_compiles, HEAD + PLACES[1].format('"a\\0b"'))),
    ),
    _unguarded,
)
