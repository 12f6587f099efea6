"""Read YAML text as nodes with their spans. Reading never raises, and its time and memory are bounded.

PyYAML's parser (libyaml if available) converts the text to a stream of events, from which reading/compose.py builds the
nodes with a stack of its own: PyYAML's composer recurses, and a deeply nested file would crash the process. Scalars
have the values of PyYAML's ``SafeLoader``, by the rules of YAML 1.1 (``yes`` is true, ``0x10`` is 16), except that
dates stay strings, and the key of a mapping is always its text: ``on:`` is "on", ``404:`` is "404".

An alias is the same node as its anchor, so nodes share memory. Expanding aliases takes time and memory, which
reading/budget.py limits.

A wrong tag, a key that is not a scalar and a duplicate key are reported, and reading continues without them. A syntax
error, a second document or an exceeded budget stops reading; earlier diagnostics are still reported.
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
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, to_json, value_of
from noetl_compiler.reading.budget import MAX_BYTES, MAX_DEPTH
from noetl_compiler.reading.compose import Composer, StopReading
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
    "decode_text",
    "pointer",
    "read",
    "read_file",
    "to_json",
    "value_of",
]

_START = Span(1, 1, 1, 1)

_HINT = "give the path of a YAML file saved as UTF-8"

_FORBIDDEN_ASCII = bytes(code for code in range(128) if Reader.NON_PRINTABLE.match(chr(code)))
"""ASCII characters that YAML does not allow. Deleting them from bytes takes a tenth of the time of a regex search."""

# libyaml compares each %TAG directive with all earlier ones, in quadratic time; playbooks need none
_TAG_DIRECTIVE = re.compile(r"^%TAG[ \t]", re.MULTILINE)


def read_file(path: Path) -> tuple[SourceFile, list[Diagnostic]]:
    """Read a file. If it cannot be read, the source is empty and the diagnostic has the reason."""
    name = str(path)
    try:
        data = read_regular(path, MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        hint = _missing_file_hint(path) if isinstance(error, FileNotFoundError) else _HINT
        return SourceFile(name, ""), [_unreadable(name, f"cannot read the file: {reason.lower()}", hint=hint)]
    try:
        return SourceFile(name, decode_text(data)), []
    except UnicodeDecodeError as error:
        return SourceFile(name, ""), [_not_utf8(name, data, error.start)]


def decode_text(data: bytes) -> str:
    """Decode UTF-8, without a byte order mark. Data over the budget may end inside a character.

    Raises UnicodeDecodeError.
    """
    if len(data) > MAX_BYTES:
        return data.decode("utf-8", errors="replace")
    return data.decode("utf-8-sig")


def _not_utf8(name: str, data: bytes, offset: int) -> Diagnostic:
    line = data.count(b"\n", 0, offset) + 1
    before = data[data.rfind(b"\n", 0, offset) + 1 : offset].decode("utf-8-sig")
    span = Span(line, len(before) + 1, line, len(before) + 2)
    return _unreadable(name, f"the byte 0x{data[offset]:02X} is not UTF-8 text", span)


def _missing_file_hint(path: Path) -> str:
    """Return a hint. It names an existing file if only the suffix is missing."""
    candidate = next((f"{path}{suffix}" for suffix in (".yaml", ".yml") if Path(f"{path}{suffix}").is_file()), None)
    return _HINT if candidate is None else f'did you mean "{candidate}"?'


def _unreadable(name: str, message: str, span: Span = _START, hint: str = _HINT) -> Diagnostic:
    return Diagnostic(Code.UNREADABLE_FILE, Severity.ERROR, span, message, hint, file=name)


def read(source: SourceFile) -> tuple[Node | None, list[Diagnostic]]:
    """Return the nodes of the text and the diagnostics; no node if the text could not be parsed to its end."""
    if text_error := _text_error(source):
        return None, [text_error]
    composer = Composer(source)
    try:
        _compose(source, composer)
    except StopReading as stop:
        return None, [*composer.diagnostics, stop.diagnostic]
    except yaml.YAMLError as error:
        return None, _add_syntax_error(composer.diagnostics, syntax_error(source, error))
    if composer.root is None:
        empty = _error(source, Code.YAML_SYNTAX, 0, "the file contains no YAML", "")
        return None, [empty]
    return composer.root, composer.diagnostics


def _add_syntax_error(diagnostics: list[Diagnostic], error: Diagnostic) -> list[Diagnostic]:
    """Add the error, unless an unquoted template on the same line caused it."""
    last = diagnostics[-1] if diagnostics else None
    is_consequence = last is not None and last.message == BARE_TEMPLATE and last.span.line == error.span.line
    return diagnostics if is_consequence else [*diagnostics, error]


def _compose(source: SourceFile, composer: Composer) -> None:
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(source.text)
    try:
        composer.compose(iter(loader.get_event, None))
    finally:
        loader.dispose()


def _text_error(source: SourceFile) -> Diagnostic | None:
    """Return a problem found without parsing: the text is too long, not printable, or has tag directives."""
    if len(source.text) > MAX_BYTES or len(data := source.text.encode(errors="replace")) > MAX_BYTES:
        hint = "keep data in a file, a table or a request, not in the playbook"
        return _error(source, Code.BUDGET_EXCEEDED, 0, f"the text is longer than {MAX_BYTES:,} bytes", hint)
    is_plain = source.text.isascii() and len(data.translate(None, _FORBIDDEN_ASCII)) == len(data)
    if not is_plain and (match := Reader.NON_PRINTABLE.search(source.text)):
        message = f"the control character U+{ord(match.group()):04X} is not allowed in YAML"
        hint = 'write it as an escape in "double quotes"'
        return _error(source, Code.YAML_SYNTAX, match.start(), message, hint)
    if "%TAG" in source.text and (match := _TAG_DIRECTIVE.search(source.text)):
        hint = "remove it and the tags"
        return _error(source, Code.UNSUPPORTED_YAML, match.start(), "a %TAG directive", hint)
    return None


def _error(source: SourceFile, code: Code, offset: int, message: str, hint: str) -> Diagnostic:
    return Diagnostic(code, Severity.ERROR, source.span(offset, offset + 1), message, hint, file=source.file)
