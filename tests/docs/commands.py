"""The commands that a page shows, parsed as the program would parse them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from noetl_temporal.cli.commands import cli

__all__ = ["commands_of", "parses"]

ROOT = Path(__file__).parents[2]


def commands_of(text: str) -> list[str]:
    """Every line ``$ noetl ...`` of its console blocks."""
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ noetl ")]


def parses(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse a command in a folder that has what the pages name. Raises click.UsageError where it is wrong."""
    (folder / "playbook.yaml").touch()
    (folder / "playbooks").mkdir()
    (folder / "dev").symlink_to(ROOT / "dev")
    monkeypatch.chdir(folder)
    words = shlex.split(line, comments=True)[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words:
        subcommand = command.get_command(context, words.pop(0))
        assert subcommand is not None, line
        command = subcommand
    command.make_context("noetl", words)
