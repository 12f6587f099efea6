"""Pages that show a change as a diff: the diffs, applied to a copy of the code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "answers_after", "diffs_of"]

ROOT = Path(__file__).parents[1]


def diffs_of(page: str) -> list[str]:
    """The diffs of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^````diff\n(.*?)^````", text, re.MULTILINE | re.DOTALL)


def answers_after(root: Path, parts: Sequence[str], question: str, *diffs: str) -> Any:
    """What the program ``question`` prints as JSON, run on a copy of these parts of the project with the diffs."""
    for part in parts:
        target = root / part
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / part, target)
    for path, before, after in (hunk for diff in diffs for hunk in _hunks(diff)):
        _apply(root / path, before, after)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (root, root / "compiler", root / "activities")))}
    command = [sys.executable, "-P", "-c", question]  # -P: not from the current folder
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def _apply(file: Path, before: str, after: str) -> None:
    if not before:
        assert not file.exists()
        file.write_text(f"{after}\n", encoding="utf-8")
        return
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"the page does not show {file.name} as it is"
    file.write_text(text.replace(before, after), encoding="utf-8")


def _hunks(diff: str) -> Iterator[tuple[str, str, str]]:
    """The path of a file, and a part of it as it was, nothing for a new file, and as it becomes."""
    for file in re.split(r"^--- ", diff, flags=re.MULTILINE)[1:]:
        path = re.search(r"^\+\+\+ b/(.+)$", file, re.MULTILINE)
        assert path is not None
        for hunk in file.split("\n@@\n")[1:]:
            lines = hunk.removesuffix("\n").split("\n")
            before = [line[1:] for line in lines if not line.startswith("+")]
            yield path[1], "\n".join(before), "\n".join(line[1:] for line in lines if not line.startswith("-"))
