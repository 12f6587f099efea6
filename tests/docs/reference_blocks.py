"""The examples of the reference: fenced blocks of YAML, each with notes on what comes of it.

A block that begins with a key of a playbook is one; the lines that every playbook begins with may be left out. One that
begins with ``tests`` has the tests of the playbook before it. Its last
comment lines are its notes, a mapping in YAML. In their values ``...`` stands for anything, as in those of playbook
tests (noetl_temporal/playbook_tests/differences.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

__all__ = ["NOTES", "PAGES", "Block", "blocks", "scripts"]

PAGES = sorted((Path(__file__).parents[2] / "dev" / "reference").glob("*.md"))

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: example}\n"
PART = re.compile(r"(workflow|workload|executor|workbook|keychain):")
NOTES: Mapping[str, str] = {
    "payload": "the request of the run",
    "signals": "the signals that the run is sent: name, then payload, or {key, data}",
    "decisions": "what people decide: the step, then {approved, by, reason, form}",
    "result": "the result of the run, which completes",
    "status": "the status of the run, where it is not completed",
    "failure": "kind and message of the first failure that was not handled",
    "findings": "what the compiler says: code, then message",
    "refused": "why the playbook is not run, though it compiles",
    "calls": "the tasks in the order of their calls",
    "attempts": "the number of attempts of each task that is named",
    "delays": "the seconds waited before retries and pages",
    "outcomes": "the last outcome of each task that is named",
    "rows": "what the tables that are named hold after the run",
    "guarantees": "what noetl compile --guarantees says of each task that is named",
    "passed": "how many tests of the playbook before pass",
    "problems": "what the tests that fail say",
}
"""What a note may say."""

RAN = frozenset({"result", "status", "refused"})
"""One of them says how a playbook ended."""


@dataclass(frozen=True)
class Block:
    """``text`` is the whole playbook, or the tests of the playbook ``tested``; ``why_not`` says why it is neither."""

    page: str
    line: int
    text: str
    notes: Mapping[str, Any]
    why_not: str = ""
    tested: str = ""

    @property
    def name(self) -> str:
        """Where it stands."""
        return f"{self.page}:{self.line}"


_FENCE = re.compile(r"(?:<!-- not a playbook: (?P<why>[^>]+) -->\n\n?)?^```yaml\n(?P<text>.*?)^```$", re.M | re.S)


def blocks(page: Path) -> Iterator[Block]:
    """Every block of YAML on a page."""
    content = page.read_text("utf-8")
    playbook = ""
    for match in _FENCE.finditer(content):
        line = content.count("\n", 0, match.start("text")) + 1
        text, notes = _split_notes(match["text"])
        if text.startswith("tests:"):
            yield Block(page.name, line, text, notes, tested=playbook)
            continue
        playbook = HEAD + text if PART.match(text) else text
        yield Block(page.name, line, playbook, notes, match["why"] or "")


_SCRIPT = re.compile(r"^```python\n# (https://\S+)\n(.*?)^```$", re.M | re.S)


def scripts(page: Path) -> Iterator[tuple[str, bytes]]:
    """Every block of Python whose first line is the address where it lies, without that line."""
    for match in _SCRIPT.finditer(page.read_text("utf-8")):
        yield match[1], match[2].encode()


def _split_notes(text: str) -> tuple[str, Mapping[str, Any]]:
    """The playbook and its notes."""
    lines = text.splitlines()
    count = len(lines)
    while count and lines[count - 1].startswith("#"):
        count -= 1
    notes: Any = yaml.safe_load("\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[count:])) or {}
    return "\n".join((*lines[:count], "")), cast("Mapping[str, Any]", notes) if isinstance(notes, dict) else {}
