"""Rewrites a playbook of any dialect in canonical v10 (dev/decisions/0012).

The new text is generated from the syntax tree, so every dialect with a front end can be migrated. What v10 cannot
express is written with the extension keys of dev/extensions.md, which the v10 front end reads.

The steps of a migration:

1. The playbook is parsed, as for compiling.
2. ``document.emit_document`` converts the tree to YAML nodes, each with its span in the original text
   (``source_lookup``), and notes the extensions that it uses.
3. If the playbook has the form of v10, keys that the tree does not contain are restored (``preserve_style``).
4. If the new document equals the original one, the text is unchanged, byte for byte.
5. Otherwise the document is written (``write``), with the comments and blank lines of the original text (``layout``).
6. The result is compiled. If its graph differs from the original graph, there is no result.
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
from noetl_compiler.language.construct import Extension
from noetl_compiler.migration.context import MigrationContext, Note
from noetl_compiler.migration.document import emit_document
from noetl_compiler.migration.extensions import written_extensions
from noetl_compiler.migration.graph_diff import first_difference, without_spans
from noetl_compiler.migration.layout import with_comments
from noetl_compiler.migration.notes import migration_notes
from noetl_compiler.migration.preserve_style import preserve_style
from noetl_compiler.migration.source_lookup import SourceLookup
from noetl_compiler.migration.write import write
from noetl_compiler.nodes import MappingNode, to_json
from noetl_compiler.phases import ParsedPlaybook, compile_parsed, parse_playbook
from noetl_compiler.reader import read
from noetl_compiler.report import Report
from noetl_compiler.source import SourceFile

__all__ = ["Migration", "Note", "migrate", "migrate_parsed", "without_spans"]

_CRLF = re.compile(r"[^\r\n]*\r\n")


class Migration(msgspec.Struct, frozen=True):
    """The result of migrating a playbook.

    ``compilation`` is that of the original playbook. ``text`` is the migrated playbook; None if the original has
    errors, or if the graph of the migrated one would differ. ``defect`` then says where; it is a bug of the migration.
    ``notes`` are in reading order.
    """

    compilation: Result
    text: str | None = None
    notes: tuple[Note, ...] = ()
    defect: str = ""

    @property
    def source(self) -> SourceFile:
        """The original text."""
        return self.compilation.source

    @property
    def is_changed(self) -> bool:
        """Whether the text changes, because it is not canonical."""
        return self.text not in (None, self.source.text)


def migrate(source: SourceFile) -> Migration:
    """Return the playbook in canonical v10. Never raises, for any text."""
    return migrate_parsed(parse_playbook(source))


def migrate_parsed(parsed: ParsedPlaybook) -> Migration:
    """Return a parsed playbook in canonical v10."""
    compilation = compile_parsed(parsed)
    if compilation.graph is None or parsed.playbook is None or not isinstance(parsed.root, MappingNode):
        return Migration(compilation)
    has_v10_form = detect(parsed.root, Report(parsed.source)) == "v10"
    extensions = written_extensions(parsed.root) if has_v10_form else frozenset[Extension]()
    context = MigrationContext(parsed.playbook, SourceLookup(parsed.root), has_v10_form, extensions)
    document = _document(context, parsed, parsed.root)
    if _is_equivalent(document, parsed.root):
        return Migration(compilation, parsed.source.text, tuple(sorted(set(context.notes))))
    text = _text(document, parsed.root, parsed.source)
    result = compile_text(text, parsed.source.file, parsed.tools)
    defect = _defect(compilation, result)
    notes = tuple(sorted({*context.notes, *migration_notes(parsed, parsed.root, document, result.diagnostics)}))
    return Migration(compilation, None if defect else text, notes, defect)


def _document(context: MigrationContext, parsed: ParsedPlaybook, root: MappingNode) -> MappingNode:
    document = emit_document(context)
    if not context.has_v10_form:
        return document
    return preserve_style(
        context,
        document,
        root,
        [diagnostic.span for diagnostic in parsed.diagnostics if diagnostic.code is Code.IGNORED_FIELD],
    )


def _is_equivalent(left: MappingNode, right: MappingNode) -> bool:
    """Whether two documents are equal, apart from style and the order of keys. Types of numbers must be equal."""
    return _sorted_json(to_json(left)) == _sorted_json(to_json(right))


def _sorted_json(data: Json) -> str:
    return json.dumps(data, sort_keys=True)


def _text(document: MappingNode, root: MappingNode, source: SourceFile) -> str:
    text = write(document, source, root)
    new_root, _ = read(SourceFile(source.file, text))
    text = with_comments(text, document, new_root, source) if new_root else text
    return text.replace("\n", "\r\n") if _CRLF.match(source.text) else text


def _defect(before: Result, after: Result) -> str:
    if before.graph and after.graph:
        return first_difference(without_spans(before.graph), without_spans(after.graph))
    return next((diagnostic.message for diagnostic in after.diagnostics if diagnostic.severity is Severity.ERROR), "")
