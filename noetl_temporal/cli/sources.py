"""The playbooks that a command line names: files, all playbooks below a folder, ``-`` for stdin."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from noetl_compiler.language.tool_description import Tools
from noetl_compiler.phases import ParsedPlaybook, parse_playbook
from noetl_compiler.playbook_set import is_unrelated_yaml, parse_file, playbook_files
from noetl_compiler.reader import MAX_BYTES, decode_text
from noetl_compiler.source import SourceFile

__all__ = ["parsed_playbooks", "stdin_source"]


def parsed_playbooks(paths: Sequence[str], tools: Tools) -> list[ParsedPlaybook]:
    """Return the parsed playbooks in the given order, without duplicates; those in a folder sorted by name.

    Other YAML files in a folder are ignored. ``tools`` are those that playbooks may call. Raises click.UsageError for a
    path that is not a file or folder, and for a folder without a playbook.
    """
    for path in paths:
        if path != "-":
            _check_path(path)
    playbooks: dict[Path, ParsedPlaybook] = {}
    for path in dict.fromkeys(paths):
        for playbook in _parse_path(path, tools):
            playbooks.setdefault(Path(playbook.source.file).resolve(), playbook)
    return list(playbooks.values())


def stdin_source() -> SourceFile:
    """Return the playbook on stdin, read up to the size limit. Raises click.UsageError if it is not UTF-8."""
    try:
        return SourceFile("<stdin>", decode_text(sys.stdin.buffer.read(MAX_BYTES + 1)))
    except UnicodeDecodeError:
        raise click.UsageError("stdin is not UTF-8 text") from None


def _check_path(path: str) -> None:
    if not path or not Path(path).exists():
        raise click.UsageError(f"no such file or folder: {path!r}")
    if not Path(path).is_file() and not Path(path).is_dir():
        raise click.UsageError(f"{path!r} is neither a file nor a folder")


def _parse_path(path: str, tools: Tools) -> Iterator[ParsedPlaybook]:
    if path == "-":
        yield parse_playbook(stdin_source(), tools)
    elif Path(path).is_dir():
        yield from _parse_folder(Path(path), tools)
    else:
        yield parse_file(Path(path), tools)


def _parse_folder(folder: Path, tools: Tools) -> Iterator[ParsedPlaybook]:
    playbooks = [
        playbook
        for playbook in (parse_file(file, tools) for file in playbook_files(folder))
        if not is_unrelated_yaml(playbook)
    ]
    if not playbooks:
        raise click.UsageError(f"there is no playbook below {str(folder)!r}")
    yield from playbooks
