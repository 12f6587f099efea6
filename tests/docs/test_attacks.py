"""dev/attacks.md names tests and classes of attacks that exist."""

from __future__ import annotations

import re
from pathlib import Path

from dev.attack.classes import CLASSES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "dev" / "attacks.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| attack |")]


def test_all_tests_named_in_the_list_of_attacks_exist() -> None:
    named_tests = {(path, name) for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)}
    assert named_tests
    assert {citation for citation in named_tests if not _defines(ROOT / citation[0], citation[1])} == set()


def _defines(file: Path, name: str) -> bool:
    return file.exists() and re.search(rf"^(?:async )?def {name}\(", file.read_text("utf-8"), re.MULTILINE) is not None


def test_every_attack_has_a_countermeasure_and_a_test() -> None:
    assert len(ROWS) > 100
    whole = re.compile(r"\| [^|]+ \| [^|]+ \| `tests/\w+/test_\w+\.py::test_\w+` \|")
    assert [row for row in ROWS if not whole.fullmatch(row)] == []


def test_no_attack_is_listed_twice() -> None:
    attacks = [row.split("|")[1] for row in ROWS]
    assert sorted(attacks) == sorted(set(attacks))


def test_every_class_is_named_and_no_other() -> None:
    assert set(re.findall(r"\[(\w+)\](?!\()", PAGE)) == CLASSES.keys()
