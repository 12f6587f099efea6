"""Every example compiles without a word."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from noetl_compiler import compile_file
from noetl_temporal.cli.migrate import migrate_command

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = sorted((ROOT / "dev/examples").glob("*.yaml"))


def test_there_are_examples() -> None:
    assert [file.stem for file in EXAMPLES] == ["etl", "events_case", "hello", "pagination_legacy"]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_compiles(file: Path) -> None:
    result = compile_file(file)
    assert result.graph is not None
    assert [found.message for found in result.diagnostics] == []


@pytest.mark.parametrize("name", ["etl", "hello"])
def test_examples_of_today_are_canonical(name: str) -> None:
    migrated = CliRunner().invoke(migrate_command, [str(ROOT / f"dev/examples/{name}.yaml"), "--check"])
    assert migrated.exit_code == 0, migrated.output
