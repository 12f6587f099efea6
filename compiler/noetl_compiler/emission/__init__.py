"""A playbook of any dialect, written anew in canonical v10 (dev/decisions/0012).

The syntax tree is emitted, not the text patched: every dialect that has a front end migrates for free. What
v10 has no form for stands under the extension keys of dev/extensions.md, which the v10 front end reads.

A playbook that already is canonical is left as it is, byte for byte, so migrating twice changes nothing. The
result is compiled before it is handed out: when its graph were another one, there is no result.
"""

from __future__ import annotations

from dataclasses import dataclass

from noetl_compiler.api import compile_text
from noetl_compiler.diagnostics import Severity
from noetl_compiler.emission.document import emit_document
from noetl_compiler.emission.draft import Draft, Note
from noetl_compiler.emission.layout import with_comments
from noetl_compiler.emission.origins import Origins
from noetl_compiler.emission.places import first_difference, without_places
from noetl_compiler.emission.remarks import remarks
from noetl_compiler.emission.write import write
from noetl_compiler.nodes import MappingNode, plain
from noetl_compiler.phases import lowered, understand
from noetl_compiler.reader import read
from noetl_compiler.result import Result
from noetl_compiler.source import SourceFile

__all__ = ["Migration", "Note", "migrate", "without_places"]


@dataclass(frozen=True, slots=True)
class Migration:
    """``compiled`` is the playbook as it was, ``text`` as it is now: None when it has errors or ``defect`` says
    where the result would mean something else, which is a fault of ours. ``notes`` are in reading order.
    """

    compiled: Result
    text: str | None = None
    notes: tuple[Note, ...] = ()
    defect: str = ""


def migrate(source: SourceFile) -> Migration:
    """The playbook in canonical v10. Never raises, whatever the text."""
    found = understand(source)
    compiled = lowered(found)
    if compiled.graph is None or found.playbook is None or not isinstance(found.root, MappingNode):
        return Migration(compiled)
    draft = Draft(found.playbook, Origins(found.root))
    document = emit_document(draft)
    if _says(document, found.root):
        return Migration(compiled, source.text, tuple(sorted(set(draft.notes))))
    text = _text(document, source)
    defect = _defect(compiled, compile_text(text, source.file))
    notes = tuple(sorted({*draft.notes, *remarks(found, found.root)}))
    return Migration(compiled, None if defect else text, notes, defect)


def _says(one: MappingNode, other: MappingNode) -> bool:
    """Whether two documents are the same up to style: also the order of keys and the types of numbers count."""
    return repr(plain(one)) == repr(plain(other))


def _text(document: MappingNode, source: SourceFile) -> str:
    text = write(document, source)
    written, _ = read(SourceFile(source.file, text))
    return with_comments(text, document, written, source) if written else text


def _defect(before: Result, after: Result) -> str:
    if before.graph and after.graph:
        return first_difference(without_places(before.graph), without_places(after.graph))
    return next((found.message for found in after.diagnostics if found.severity is Severity.ERROR), "")
