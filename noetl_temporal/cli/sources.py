"""The playbooks that a command line names: files, all playbooks below a folder, ``-`` for stdin."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from noetl_compiler import Result, compile_file, compile_text
from noetl_compiler.codes import Code

__all__ = ["compiled"]

_SUFFIXES = (".yaml", ".yml")


def compiled(paths: Sequence[str]) -> list[Result]:
    """What each compiles to, in the given order; below a folder by name, leaving out YAML that is no playbook.

    Raises click.UsageError for a path that is not there and for a folder without a playbook.
    """
    for path in paths:
        if path != "-" and not Path(path).exists():
            raise click.UsageError(f"there is no file or folder {path!r}")
    return [result for path in paths for result in _compiled(path)]


def _compiled(path: str) -> Iterator[Result]:
    if path == "-":
        yield compile_text(sys.stdin.read(), "<stdin>")
    elif Path(path).is_dir():
        yield from _below(Path(path))
    else:
        yield compile_file(path)


def _below(folder: Path) -> Iterator[Result]:
    files = sorted(file for file in folder.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
    results = [result for result in map(compile_file, files) if not _is_other_yaml(result)]
    if not results:
        raise click.UsageError(f"there is no playbook below {str(folder)!r}")
    yield from results


def _is_other_yaml(result: Result) -> bool:
    return any(found.code is Code.NOT_A_PLAYBOOK for found in result.diagnostics)
