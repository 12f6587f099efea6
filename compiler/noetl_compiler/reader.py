"""Text to YAML nodes, every one with its place. This phase never raises and never runs away.

How it works. PyYAML's parser (libyaml where it is compiled in) turns the text into a flat stream of events,
and reading/compose.py builds the nodes from it with a stack of its own, because the composer of PyYAML recurses and a
deep file would end the process. Scalars mean what PyYAML's ``SafeLoader`` makes of them, YAML 1.1 and all
(``yes`` is true, ``0x10`` is 16), but a date stays text, and a mapping's key is always its text: ``on:`` is
"on", ``404:`` is "404".

An alias is the same node as its anchor, so nodes share memory. What costs is writing them out, which
reading/budget.py bounds.

A wrong tag, a key that is no scalar or a duplicate key is reported and reading goes on without it; a syntax
error, a second document or an exceeded budget ends the reading. What was found before is reported too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from yaml.reader import Reader

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Severity
from noetl_compiler.graph.contents import pointer
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, plain, value_of
from noetl_compiler.reading.budget import MAX_BYTES, MAX_DEPTH
from noetl_compiler.reading.compose import Composer, Refusal
from noetl_compiler.reading.syntax_errors import BARE_TEMPLATE, syntax_error
from noetl_compiler.regular_file import read_regular
from noetl_compiler.source import SourceFile, Span

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MappingNode",
    "Node",
    "ScalarNode",
    "SequenceNode",
    "decoded",
    "plain",
    "pointer",
    "read",
    "read_file",
    "value_of",
]

_START = Span(1, 1, 1, 1)

_HINT = "give the path of a YAML file saved as UTF-8"

_CONTROLS = bytes(code for code in range(128) if Reader.NON_PRINTABLE.match(chr(code)))
"""The characters of ASCII that are not allowed. Removing them from bytes takes a tenth of the time of a search."""

# libyaml compares every new %TAG directive with all before it; a playbook has no use for any
_TAG_DIRECTIVE = re.compile(r"^%TAG[ \t]", re.MULTILINE)


def read_file(path: Path) -> tuple[SourceFile, list[Diagnostic]]:
    """Read a file. If it cannot be read, the source is empty and the diagnostic has the reason."""
    name = str(path)
    try:
        data = read_regular(path, MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        hint = _hint(path) if isinstance(error, FileNotFoundError) else _HINT
        return SourceFile(name, ""), [_unreadable(name, f"cannot read the file: {reason.lower()}", hint=hint)]
    try:
        return SourceFile(name, decoded(data)), []
    except UnicodeDecodeError as error:
        return SourceFile(name, ""), [_not_utf8(name, data, error.start)]


def decoded(data: bytes) -> str:
    """UTF-8 without a byte order mark; what is beyond the budget may be cut inside of a character.

    Raises UnicodeDecodeError."""
    if len(data) > MAX_BYTES:
        return data.decode("utf-8", errors="replace")
    return data.decode("utf-8-sig")


def _not_utf8(name: str, data: bytes, offset: int) -> Diagnostic:
    line = data.count(b"\n", 0, offset) + 1
    before = data[data.rfind(b"\n", 0, offset) + 1 : offset].decode("utf-8-sig")
    span = Span(line, len(before) + 1, line, len(before) + 2)
    return _unreadable(name, f"the byte 0x{data[offset]:02X} is not UTF-8 text", span)


def _hint(missing: Path) -> str:
    """Return a hint; it names an existing file if only the extension is missing."""
    meant = next((f"{missing}{ending}" for ending in (".yaml", ".yml") if Path(f"{missing}{ending}").is_file()), None)
    return _HINT if meant is None else f'did you mean "{meant}"?'


def _unreadable(name: str, message: str, span: Span = _START, hint: str = _HINT) -> Diagnostic:
    return Diagnostic(Code.UNREADABLE_FILE, Severity.ERROR, span, message, hint, file=name)


def read(source: SourceFile) -> tuple[Node | None, list[Diagnostic]]:
    """Return the nodes of the text and the diagnostics; no node if the text could not be parsed to its end."""
    if refused := _refused_text(source):
        return None, [refused]
    composer = Composer(source)
    try:
        _compose(source, composer)
    except Refusal as refusal:
        return None, [*composer.diagnostics, refusal.diagnostic]
    except yaml.YAMLError as error:
        return None, _with_syntax_error(composer.diagnostics, syntax_error(source, error))
    if composer.root is None:
        empty = _error(source, Code.YAML_SYNTAX, 0, "the file contains no YAML", "")
        return None, [empty]
    return composer.root, composer.diagnostics


def _with_syntax_error(found: list[Diagnostic], error: Diagnostic) -> list[Diagnostic]:
    """What follows a template without quotes in its line follows from it."""
    last = found[-1] if found else None
    is_told = last is not None and last.message == BARE_TEMPLATE and last.span.line == error.span.line
    return found if is_told else [*found, error]


def _compose(source: SourceFile, composer: Composer) -> None:
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(source.text)
    try:
        composer.take(iter(loader.get_event, None))
    finally:
        loader.dispose()


def _refused_text(source: SourceFile) -> Diagnostic | None:
    """Return the problem that needs no parsing: the text is too long, not printable, or has tag directives."""
    if len(source.text) > MAX_BYTES or len(data := source.text.encode(errors="replace")) > MAX_BYTES:
        hint = "keep data in a file, a table or a request, not in the playbook"
        return _error(source, Code.BUDGET_EXCEEDED, 0, f"the text is longer than {MAX_BYTES:,} bytes", hint)
    is_plain = source.text.isascii() and len(data.translate(None, _CONTROLS)) == len(data)
    if not is_plain and (found := Reader.NON_PRINTABLE.search(source.text)):
        message = f"the control character U+{ord(found.group()):04X} is not allowed in YAML"
        hint = 'write it as an escape in "double quotes"'
        return _error(source, Code.YAML_SYNTAX, found.start(), message, hint)
    if "%TAG" in source.text and (found := _TAG_DIRECTIVE.search(source.text)):
        hint = "remove it and the tags"
        return _error(source, Code.UNSUPPORTED_YAML, found.start(), "a %TAG directive", hint)
    return None


def _error(source: SourceFile, code: Code, offset: int, message: str, hint: str) -> Diagnostic:
    return Diagnostic(code, Severity.ERROR, source.span(offset, offset + 1), message, hint, file=source.file)
