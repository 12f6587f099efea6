"""dev/semantics.md names tests and golden playbooks that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "dev" / "semantics.md").read_text(encoding="utf-8")
TESTS = {
    f"{file.name}::{name}"
    for file in ROOT.glob("tests/*/test_*.py")
    for name in re.findall(r"def (test_\w+)", file.read_text("utf-8"))
}


def test_all_tests_named_in_the_semantics_exist() -> None:
    named_tests = set(re.findall(r"`(test_\w+\.py::\w+)`", PAGE))
    assert named_tests
    assert named_tests - TESTS == set()


def test_the_golden_playbooks_exist() -> None:
    corpus = ROOT / "tests" / "compiler" / "corpus"
    named_tests = set(re.findall(r"`((?:ok|err)/\w+)`", PAGE))
    assert named_tests
    assert {name for name in named_tests if not (corpus / f"{name}.yaml").exists()} == set()


def test_every_rule_is_shown() -> None:
    numbers = {int(number) for number in re.findall(r"^\| (\d+)", PAGE, re.MULTILINE)}
    assert numbers >= set(range(1, 29))
    rows = [line for line in PAGE.splitlines() if re.match(r"\| \d", line)]
    assert [line for line in rows if "`" not in line.split("|")[2]] == []
