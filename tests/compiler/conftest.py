"""Golden files: written by ``pytest tests/compiler --update-goldens``, never in CI."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

OPTION = "--update-goldens"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="rewrite the golden files of tests/compiler")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with the golden file, or write it there when asked to."""
    update = bool(request.config.getoption(OPTION, default=False))

    def compare(path: Path, expected: str) -> None:
        if update:
            path.write_text(expected, encoding="utf-8")
        assert expected == path.read_text(encoding="utf-8")

    return compare
