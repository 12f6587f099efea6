"""Files that the documentation for developers names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "dev").glob("*.md"), *(ROOT / "dev" / "decisions").glob("*.md")])
FOLDERS = ("compiler", "activities", "noetl_temporal", "tests", "dev")
FILES = {path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")}

_FILE_NAME = re.compile(r"(?<![\w/.*-])(?:[ab]/)?((?:\w+/)*\w+\.(?:py|sql))\b")

EXAMPLES = {"activities.py", "compiler/noetl_compiler/checks/long_names.py"}
"""Files of other projects, and of a change that a decision shows."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_names_exist(page: Path) -> None:
    file_names = set(_FILE_NAME.findall(page.read_text())) - EXAMPLES
    assert {name for name in file_names if not any(f"/{file}".endswith(f"/{name}") for file in FILES)} == set()
