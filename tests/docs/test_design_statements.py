"""dev/designs.tsv has every statement of the design documents, and what shows it exists."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DESIGNS = ROOT.parent / "shared" / "seeds"
TABLE = ROOT / "dev" / "designs.tsv"
ABOUT = re.compile(r"\b(loops?|iterat\w+|retr\w+|attempts?|fail\w*|errors?|case|end|cancel\w*)\b", re.IGNORECASE)


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE))


ROWS = _rows(TABLE)


def _exists(expected: str) -> bool:
    if re.fullmatch(r"\d{4}", expected):
        return bool(list((ROOT / "dev/decisions").glob(f"{expected}-*.md")))
    if expected.startswith(("ok/", "err/")):
        return (ROOT / "tests/compiler/corpus" / f"{expected}.yaml").is_file()
    file, _, test = expected.partition("::")
    path = ROOT / "tests" / file
    return bool(test) and path.is_file() and f"def {test}(" in path.read_text(encoding="utf-8")


def test_tests_that_statements_name_exist() -> None:
    assert {reference for row in ROWS for reference in row["shown by"].split() if not _exists(reference)} == set()


def test_each_statement_is_shown() -> None:
    assert [row["id"] for row in ROWS] == [f"S{number}" for number in range(1, len(ROWS) + 1)]
    assert [row["id"] for row in ROWS if not row["shown by"]] == []
    about = [row for row in ROWS if ABOUT.search(row["statement"])]
    assert len(about) > 200


def test_decision_0087_names_its_statements() -> None:
    """The ids are written one by one or as ranges."""
    text = (ROOT / "dev/decisions/0087-deviations-from-the-design-documents.md").read_text(encoding="utf-8")
    named_tests: set[str] = set()
    for first, last in re.findall(r"\bS(\d+)(?:-S(\d+))?", text):
        named_tests |= {f"S{number}" for number in range(int(first), int(last or first) + 1)}
    assert named_tests == {row["id"] for row in ROWS if "0087" in row["shown by"].split()}


@pytest.mark.skipif(not DESIGNS.is_dir(), reason="../shared/seeds is not here")
def test_it_has_every_statement_of_the_documents() -> None:
    expected_rows = _rows(DESIGNS / "statements.tsv")
    columns = ("id", "statement", "line")
    assert [[row[name] for name in columns] for row in ROWS] == [
        [row[name] for name in columns] for row in expected_rows
    ]
    assert [row["document"] for row in ROWS] == [row["file"] for row in expected_rows]
    for row in ROWS:
        lines = (DESIGNS / row["document"]).read_text(encoding="utf-8").splitlines()
        assert 0 < int(row["line"]) <= len(lines)
