"""A playbook of any dialect, rewritten in canonical v10 (dev/decisions/0012).

The syntax tree is emitted, not the text patched: every dialect that has a front end migrates for free. What
v10 cannot express is written with the extension keys of dev/extensions.md, which the v10 front end reads.

A text goes through here in this order. It is understood as for compiling. ``document.emit_document`` makes nodes of
the tree, each with the place it came from (``origins``), and notes each extension it needs. A playbook that has the
form of v10 gets back what the tree is silent about (``keeping``). If that says what the author's document says, his
text is left alone, byte for byte. Else it is written (``write``) and gets his comments and blank lines (``layout``).
At last the result is compiled: when its graph were another one, there would be no result.
"""

from __future__ import annotations

import json
import re

import msgspec

from noetl_compiler.api import Result, compile_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Severity
from noetl_compiler.dialects.detect import detect
from noetl_compiler.graph import Json
from noetl_compiler.migration.context import MigrationContext, Note
from noetl_compiler.migration.document import emit_document
from noetl_compiler.migration.graph_diff import first_difference, without_places
from noetl_compiler.migration.layout import with_comments
from noetl_compiler.migration.notes import migration_notes
from noetl_compiler.migration.preserve_style import kept_as_written
from noetl_compiler.migration.source_lookup import SourceLookup
from noetl_compiler.migration.write import write
from noetl_compiler.nodes import MappingNode, to_json
from noetl_compiler.phases import ParsedPlaybook, compile_parsed, parse_playbook
from noetl_compiler.reader import read
from noetl_compiler.report import Report
from noetl_compiler.source import SourceFile

__all__ = ["Migration", "Note", "migrate", "migrated", "without_places"]

_CRLF = re.compile(r"[^\r\n]*\r\n")


class Migration(msgspec.Struct, frozen=True):
    """The result of migrating a playbook.

    ``compiled`` is the playbook as it was, ``text`` as it is now: None when it has errors or ``defect`` says
    where the result would mean something else, which is a fault of ours. ``notes`` are in reading order.
    """

    compiled: Result
    text: str | None = None
    notes: tuple[Note, ...] = ()
    defect: str = ""

    @property
    def source(self) -> SourceFile:
        """The text as it was."""
        return self.compiled.source

    @property
    def changes(self) -> bool:
        """Whether the playbook was not canonical already."""
        return self.text not in (None, self.source.text)


def migrate(source: SourceFile) -> Migration:
    """Return the playbook in canonical v10. Never raises, whatever the text."""
    return migrated(parse_playbook(source))


def migrated(found: ParsedPlaybook) -> Migration:
    """Return a parsed playbook in canonical v10."""
    compiled = compile_parsed(found)
    if compiled.graph is None or found.playbook is None or not isinstance(found.root, MappingNode):
        return Migration(compiled)
    context = MigrationContext(found.playbook, SourceLookup(found.root))
    document = _document(context, found, found.root)
    if _is_equivalent(document, found.root):
        return Migration(compiled, found.source.text, tuple(sorted(set(context.notes))))
    text = _text(document, found.root, found.source)
    result = compile_text(text, found.source.file, found.tools)
    defect = _defect(compiled, result)
    notes = tuple(sorted({*context.notes, *migration_notes(found, found.root, document, result.diagnostics)}))
    return Migration(compiled, None if defect else text, notes, defect)


def _document(context: MigrationContext, found: ParsedPlaybook, root: MappingNode) -> MappingNode:
    document = emit_document(context)
    if detect(root, Report(found.source)) != "v10":
        return document
    return kept_as_written(
        context, document, root, [one.span for one in found.diagnostics if one.code is Code.IGNORED_FIELD]
    )


def _is_equivalent(one: MappingNode, other: MappingNode) -> bool:
    """Whether two documents are the same up to style, which the order of keys is; the types of numbers count."""
    return _unordered(to_json(one)) == _unordered(to_json(other))


def _unordered(data: Json) -> str:
    return json.dumps(data, sort_keys=True)


def _text(document: MappingNode, root: MappingNode, source: SourceFile) -> str:
    text = write(document, source, root)
    written, _ = read(SourceFile(source.file, text))
    text = with_comments(text, document, written, source) if written else text
    return text.replace("\n", "\r\n") if _CRLF.match(source.text) else text


def _defect(before: Result, after: Result) -> str:
    if before.graph and after.graph:
        return first_difference(without_places(before.graph), without_places(after.graph))
    return next((found.message for found in after.diagnostics if found.severity is Severity.ERROR), "")
