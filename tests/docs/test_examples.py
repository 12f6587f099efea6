"""Every example compiles without findings, and passes its tests; those of today are canonical."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from noetl_compiler import compile_file
from noetl_temporal.cli.commands import cli
from noetl_temporal.cli.migrate import migrate_command

ROOT = Path(__file__).parent.parent.parent
TESTS = sorted((ROOT / "dev").glob("*examples/*.test.yaml"))
EXAMPLES = sorted(set((ROOT / "dev").glob("*examples/*.yaml")) - set(TESTS))


def test_the_example_files_are_known() -> None:
    assert [file.stem for file in EXAMPLES] == ["etl", "hello", "events_case", "pagination_legacy"]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_example_compiles(file: Path) -> None:
    result = compile_file(file)
    assert result.graph is not None
    assert [diagnostic.message for diagnostic in result.diagnostics] == []


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_tests_pass_and_reach_everything(file: Path) -> None:
    done = CliRunner().invoke(cli, ["test", str(file), "--coverage"])
    assert done.exit_code == 0, done.output
    assert "not reached" not in done.output


def test_examples_are_canonical() -> None:
    result = CliRunner().invoke(migrate_command, [str(ROOT / "dev/examples"), "--check"])
    assert (result.exit_code, result.output) == (0, "")
