"""``noetl explain``: what a key of a playbook, a tool kind or the code of a finding means."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Sequence

import click

from noetl_compiler.codes import Code, explanation
from noetl_compiler.language.tools import KINDS, PSEUDO_KINDS
from noetl_compiler.schema.lookup import CONSTRUCTS, KeyEntry, UnknownPathError, lookup
from noetl_compiler.schema.tools import KIND_MEANINGS

__all__ = ["explain_command"]

_CODE = re.compile(r"NT\d+", re.IGNORECASE)
_WIDTH = 100


@click.command("explain")
@click.argument("path", required=False, metavar="[PATH|KIND|CODE]")
def explain_command(path: str | None) -> None:
    """Explain a key of a playbook, a tool kind or the code of a finding.

    \b
    noetl explain loop.spec.max_in_flight     a key: paths begin at playbook, step, task, rule or any key of these
    noetl explain http                        a tool kind and its keys
    noetl explain NT303                       what a finding means, with an example
    """
    if path is None:
        click.echo("\n".join(_overview()))
    elif _CODE.fullmatch(path):
        click.echo(_code(path.upper()))
    else:
        click.echo("\n".join(_lines(_entry(path))))


def _entry(path: str) -> KeyEntry:
    try:
        return lookup(path)
    except UnknownPathError as error:
        raise click.UsageError(str(error)) from None


def _code(name: str) -> str:
    try:
        return explanation(Code(name))
    except ValueError:
        codes = sorted(code.value for code in Code)
        raise click.UsageError(f"unknown code {name}: codes are {codes[0]} to {codes[-1]}") from None


def _overview() -> Iterator[str]:
    yield "Keys, by path:"
    yield from _table([(name, lookup(name).about) for name in CONSTRUCTS])
    yield "\nTool kinds:"
    yield from _table([(kind, KIND_MEANINGS[kind]) for kind in KIND_MEANINGS if _is_supported(kind)])
    unsupported = (kind for kind in KIND_MEANINGS if not _is_supported(kind) and kind not in PSEUDO_KINDS)
    yield "\nKnown, but not supported yet:"
    yield from textwrap.wrap(", ".join(unsupported), _WIDTH, initial_indent="  ", subsequent_indent="  ")
    yield "\nCodes of findings: noetl explain NT303"


def _is_supported(kind: str) -> bool:
    """Tasks of the workbook are part of the graph of their caller."""
    return kind == "workbook" or (kind in KINDS and KINDS[kind].executor)


def _about(kind: str) -> str:
    return KIND_MEANINGS[kind] if _is_supported(kind) else f"{KIND_MEANINGS[kind]} Not supported yet: a run is refused."


def _lines(entry: KeyEntry) -> Iterator[str]:
    required = ", required" if entry.is_required else ""
    yield f"{entry.path}: {entry.value}{required}" if entry.value else entry.path
    about = _about(entry.path) if entry.shared else entry.about
    yield from textwrap.wrap(about, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    if entry.choices:
        yield "\nValues:"
        yield from _table(entry.choices)
    if entry.examples:
        yield f"\nExamples: {', '.join(map(_shown, entry.examples))}"
    if entry.older:
        yield f"\nOlder names: {', '.join(entry.older)}"
    if entry.keys:
        yield "\nKeys:"
        yield from _table(entry.keys)
    if entry.shared:
        yield "\nKeys of every tool call:"
        yield from _table(entry.shared)


def _shown(example: object) -> str:
    return example if isinstance(example, str) else json.dumps(example)


def _table(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    width = max(len(name) for name, _ in rows) + 4
    for name, about in rows:
        first, *others = textwrap.wrap(about, max(30, _WIDTH - width)) or [""]
        yield f"  {name:{width - 2}}{first}"
        yield from (" " * width + line for line in others)
