"""``noetl explain``: explain a playbook key, a tool kind or a diagnostic code, or print a page of the reference."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Sequence

import click

from noetl_activities.installed_tools import installed_tools
from noetl_compiler.codes import Code, explanation
from noetl_compiler.language.names import EVENT, ITERATION, OUTCOME, PIPELINE, RUN
from noetl_compiler.language.tool_description import EFFECTS, ToolDescription
from noetl_compiler.language.tools import PSEUDO_KINDS
from noetl_compiler.reference_pages import page, pages
from noetl_compiler.schema.lookup import CONSTRUCTS, KeyEntry, UnknownPathError, lookup, lookup_kind, lookup_suffix
from noetl_compiler.schema.tools import ToolKinds

__all__ = ["explain_command"]

_CODE = re.compile(r"NT\d+", re.IGNORECASE)
_MARKER = re.compile(r"^<!-- .* -->\n\n?", re.MULTILINE)
"""Comments in a page that mark generated tables, and code blocks that are not playbooks."""

_WIDTH = 100

_TEMPLATE_NAMES = RUN | ITERATION | PIPELINE | EVENT | OUTCOME.keys()


@click.command("explain")
@click.argument("path", required=False, metavar="[PATH|KIND|CODE|PAGE]")
def explain_command(path: str | None) -> None:
    """Explain a playbook key, a tool kind or a diagnostic code, or print a page of the reference.

    \b
    noetl explain loop.spec.max_in_flight     a key: paths begin at playbook, step, task, rule or any key of these
    noetl explain collect                     the keys of that name, or whose path ends so
    noetl explain http                        a tool kind and its keys
    noetl explain NT303                       what a finding means, with an example
    noetl explain loops                       a page of the language reference
    """
    kinds = ToolKinds(installed_tools())
    if path is None:
        click.echo("\n".join(_overview(kinds)))
    elif _CODE.fullmatch(path):
        click.echo(_code_explanation(path.upper()))
    elif path in pages():
        click.echo(_MARKER.sub("", page(path)))
    else:
        click.echo("\n".join(_lines_about(path, kinds)))
        if path in CONSTRUCTS and path in kinds.names:
            click.echo("\nThe tool kind of the same name:\n")
            click.echo("\n".join(_entry_lines(lookup_kind(path, kinds), kinds)))


def _lines_about(path: str, kinds: ToolKinds) -> Iterator[str]:
    """Yield the explanation of a key, of other keys of that name, or of all keys whose path ends with ``path``."""
    try:
        entry = lookup(path, kinds)
    except UnknownPathError as error:
        matching_entries = lookup_suffix(path, kinds)
        if not matching_entries:
            raise _usage_error(path, error, kinds) from None
        yield from _matching_entry_lines(path, matching_entries, kinds)
        return
    yield from _entry_lines(entry, kinds)
    others = [other for other in lookup_suffix(path, kinds) if other.about != entry.about] if entry.value else []
    if others:
        yield f"\nOther keys named {path}:"
        yield from _table(_distinct_meanings(others))


def _matching_entry_lines(path: str, matching_entries: Sequence[KeyEntry], kinds: ToolKinds) -> Iterator[str]:
    """Yield the explanation of a key, with the other paths to it, or a list of different keys."""
    first, *others = matching_entries
    if any(other.about != first.about for other in others):
        yield f"Keys named {path}:"
        yield from _table(_distinct_meanings(matching_entries))
        yield f"\nTo explain one of them: noetl explain {first.path}"
        return
    yield from _entry_lines(first, kinds)
    if others:
        yield "\nIt is also at:"
        yield from _paragraph(", ".join(other.path for other in others))


def _distinct_meanings(entries: Sequence[KeyEntry]) -> list[tuple[str, str]]:
    """Return (path, meaning) of the entries; of several with the same meaning only the first."""
    paths: dict[str, str] = {}
    for entry in entries:
        paths.setdefault(entry.about, entry.path)
    return [(path, about) for about, path in paths.items()]


def _usage_error(path: str, error: UnknownPathError, kinds: ToolKinds) -> click.UsageError:
    name = path.partition(".")[0]
    if name not in _TEMPLATE_NAMES:
        return click.UsageError(str(error))
    template_hint = f'"{name}" is a name in templates: noetl explain templates'
    unknown_key = f"{error}; " if _has_keys(name, kinds) else ""
    return click.UsageError(unknown_key + template_hint)


def _has_keys(name: str, kinds: ToolKinds) -> bool:
    """Whether a name in templates is also a key with keys below it, such as loop."""
    try:
        return bool(lookup(name, kinds).keys)
    except UnknownPathError:
        return False


def _code_explanation(name: str) -> str:
    try:
        return explanation(Code(name))
    except ValueError:
        codes = sorted(code.value for code in Code)
        raise click.UsageError(f"unknown code {name}: codes are {codes[0]} to {codes[-1]}") from None


def _overview(kinds: ToolKinds) -> Iterator[str]:
    yield "Keys, by path:"
    yield from _table([(name, lookup(name).about) for name in CONSTRUCTS])
    yield "\nTool kinds:"
    yield from _table([(kind, about) for kind, about in kinds.meanings.items() if kinds.is_supported(kind)])
    unsupported_kinds = (kind for kind in kinds.names if not kinds.is_supported(kind) and kind not in PSEUDO_KINDS)
    yield "\nKnown, but not supported:"
    yield from textwrap.wrap(", ".join(unsupported_kinds), _WIDTH, initial_indent="  ", subsequent_indent="  ")
    yield "\nPages of the reference:"
    yield from _table(list(pages().items()))
    yield "\nCodes of findings: noetl explain NT303"


def _entry_lines(entry: KeyEntry, kinds: ToolKinds) -> Iterator[str]:
    required_note = " (required)" if entry.is_required else ""
    yield f"{entry.path}: {entry.value}{required_note}" if entry.value else entry.path
    yield from _paragraph(entry.about)
    if entry.tool is not None:
        yield from _tool_properties(entry.tool, is_supported=kinds.is_supported(entry.path))
    if entry.choices:
        yield "\nValues:"
        yield from _table(entry.choices)
    if entry.default is not None:
        yield f"\nDefault: {_example_text(entry.default)}"
    if entry.examples:
        yield f"\nExamples: {', '.join(map(_example_text, entry.examples))}"
    if entry.older_names:
        yield f"\nOlder names: {', '.join(entry.older_names)}"
    if entry.keys:
        yield "\nKeys:"
        yield from _table(entry.keys)
    if entry.shared_keys:
        yield "\nKeys of every tool call:"
        yield from _table(entry.shared_keys)
    if entry.tool is not None and entry.tool.yields:
        yield "\nIts result:"
        yield from _paragraph(entry.tool.yields)
    if entry.tool is not None and entry.tool.result:
        yield "\nKeys of its result:"
        yield from _table([(name, field.about) for name, field in entry.tool.result.items()])


def _tool_properties(tool: ToolDescription, *, is_supported: bool) -> Iterator[str]:
    """Yield the properties of all calls of a kind."""
    if tool.problem:
        yield from _paragraph(f"It is installed and cannot be used: {tool.problem}")
    elif not is_supported:
        yield from _paragraph(f"Not supported, so a run is refused: {tool.unsupported}.")
    if tool.needs:
        yield from _paragraph(f"It needs {', and '.join(' or '.join(group) for group in tool.needs)}.")
    if tool.guarantee is not None:
        yield from _paragraph(f"A call takes effect {tool.guarantee}.")
    elif tool.effect is not None:
        yield from _paragraph(EFFECTS[tool.effect])
    if tool.timeout is not None:
        yield from _paragraph(f"A call that names no timeout may take {tool.timeout:g} s.")
    if tool.access:
        yield from _paragraph(tool.access)


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _example_text(example: object) -> str:
    return example if isinstance(example, str) else json.dumps(example)


def _table(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    width = max(len(name) for name, _ in rows) + 4
    for name, about in rows:
        first, *others = textwrap.wrap(about, max(30, _WIDTH - width)) or [""]
        yield f"  {name:{width - 2}}{first}"
        yield from (" " * width + line for line in others)
