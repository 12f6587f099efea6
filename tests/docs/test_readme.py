"""What the README shows is true: its commands exist, its blocks compile, its picture is of the example beside it."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import yaml

from noetl_activities.tool import load_tools
from noetl_compiler import compile_file, compile_text, preview
from noetl_temporal.cli.commands import cli

from .commands import commands_of, parses

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


COMMANDS = commands_of(README)


def test_the_picture_is_current() -> None:
    graph = compile_file(ROOT / "dev/examples/etl.yaml").graph
    assert graph is not None
    (example,) = blocks("mermaid")
    assert example.strip() == preview.mermaid(graph).strip(), "draw it again: noetl compile ... --format mermaid"


def test_the_playbook_is_the_example() -> None:
    assert blocks("yaml")[0] == (ROOT / "dev/examples/hello.yaml").read_text()


@pytest.mark.parametrize("text", [block for block in blocks("yaml") if "apiVersion" in block])
def test_playbooks_compile(text: str) -> None:
    result = compile_text(text)
    assert result.graph is not None
    assert result.diagnostics == ()


def test_the_example_of_compiling_in_python_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = [block for block in blocks("python") if "noetl_compiler" in block]
    monkeypatch.chdir(ROOT)
    exec(compile(program, "README.md", "exec"), {})
    assert "fetch_all" in capsys.readouterr().out


def test_credentials_are_a_mapping_of_names() -> None:
    (credentials,) = [yaml.safe_load(block) for block in blocks("yaml") if "apiVersion" not in block]
    assert credentials["warehouse"]["type"] == "postgres"


def test_lines_are_short() -> None:
    """But for what is printed by a command."""
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    assert [line for line in prose.splitlines() if len(line) > 132] == []


def test_the_readme_has_commands() -> None:
    assert {command.split()[1] for command in COMMANDS} >= {"run", "compile", "dev", "status", "events", "worker"}


def test_every_command_is_in_its_table() -> None:
    table = README.split("\n## Commands\n", 1)[1].split("\n## ", 1)[0]
    named_commands = {tuple(words.split()) for words in re.findall(r"`noetl ([a-z][a-z -]*)`", table)}
    assert {words[0] for words in named_commands} == set(cli.list_commands(click.Context(cli)))


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_and_their_options_exist(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parses(line, tmp_path, monkeypatch)


@pytest.mark.parametrize("target", re.findall(r"\]\((?!http)([^)#]+)\)", README))
def test_link_targets_exist(target: str) -> None:
    assert (ROOT / target).exists()


@pytest.mark.parametrize("name", re.findall(r"`(dev/[\w./]+)`", README))
def test_files_that_the_readme_names_exist(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.parametrize("step", re.findall(r"--explain (\w+)|--items (\w+)=", README))
def test_steps_that_commands_name_are_in_the_example(step: tuple[str, str]) -> None:
    graph = compile_file(ROOT / "dev/examples/etl.yaml").graph
    assert graph is not None
    assert "".join(step) in graph.steps


def test_the_tools_that_can_run_are_those_it_names() -> None:
    rows = re.findall(r"^\| the tools (.*?) \|", README, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == set(load_tools())
