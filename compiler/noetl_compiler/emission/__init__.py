"""A playbook of any dialect, written anew in canonical v10 (dev/decisions/0012).

The syntax tree is emitted, not the text patched: every dialect that has a front end migrates for free. What
v10 has no form for stands under the extension keys of dev/extensions.md, which the v10 front end reads.

A playbook that already is canonical is left as it is, byte for byte, so migrating twice changes nothing. The
result is compiled before it is handed out: when its graph were another one, there is no result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Severity
from noetl_compiler.emission.document import emit_document
from noetl_compiler.emission.draft import Draft, Note
from noetl_compiler.emission.layout import with_comments
from noetl_compiler.emission.origins import Origins
from noetl_compiler.emission.places import without_places
from noetl_compiler.emission.write import write
from noetl_compiler.graph import encode
from noetl_compiler.lower import lower
from noetl_compiler.nodes import MappingNode, plain
from noetl_compiler.pipeline import compile_text, understand
from noetl_compiler.reader import read
from noetl_compiler.source import SourceFile, Span
from noetl_compiler.syntax import Playbook

__all__ = ["Migration", "Note", "migrate", "without_places"]


@dataclass(frozen=True, slots=True)
class Migration:
    """``text`` is None when the playbook has errors; the diagnostics say which. ``notes`` are in reading order."""

    text: str | None
    diagnostics: tuple[Diagnostic, ...]
    notes: tuple[Note, ...] = ()


def migrate(source: SourceFile) -> Migration:
    """The playbook in canonical v10. Never raises, whatever the text."""
    found = understand(source)
    if found.playbook is None or found.has_errors or not isinstance(found.root, MappingNode):
        return Migration(None, found.diagnostics)
    draft = Draft(found.playbook, Origins(found.root))
    document = emit_document(draft)
    notes = tuple(sorted(set(draft.notes)))
    if _same(plain(document), plain(found.root)):
        return Migration(source.text, found.diagnostics, notes)
    text = _text(document, source)
    return Migration(text, found.diagnostics, notes)


def _text(document: MappingNode, source: SourceFile) -> str:
    text = write(document, source)
    written, _ = read(SourceFile(source.file, text))
    return with_comments(text, document, written, source) if written else text


def _same(one: object, other: object) -> bool:
    """Equal with the order of keys and the types of numbers."""
    return repr(one) == repr(other)
