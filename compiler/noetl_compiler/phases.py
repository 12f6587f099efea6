"""From text to graph: read, parse, check, lower. Every phase reports errors and continues; an error means no graph."""

from __future__ import annotations

import msgspec

from noetl_compiler.api import Result
from noetl_compiler.checks import CHECKS
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Severity, sort_and_dedupe
from noetl_compiler.dialects import parse
from noetl_compiler.dialects.fields import is_misspelt
from noetl_compiler.gc_pause import CollectorPause
from noetl_compiler.indentation import with_indentation_hints
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.language.tools import KINDS
from noetl_compiler.lower import lower
from noetl_compiler.nodes import MappingNode, Node, ScalarNode
from noetl_compiler.reader import read
from noetl_compiler.reading.aliases import with_alias_places
from noetl_compiler.report import Report
from noetl_compiler.source import SourceFile
from noetl_compiler.syntax import Playbook

__all__ = ["ParsedPlaybook", "lowered", "parse_playbook"]


class ParsedPlaybook(msgspec.Struct, frozen=True):
    """A text before it is lowered. With an error among the diagnostics its syntax tree is not to be trusted. ``tools``
    are those that it may call, ``scripts`` the texts that were fetched for it (scripts.py)."""

    source: SourceFile
    root: Node | None
    playbook: Playbook | None
    diagnostics: tuple[Diagnostic, ...]
    tools: Tools
    scripts: tuple[SourceFile, ...] = ()


def parse_playbook(source: SourceFile, tools: Tools | None = None) -> ParsedPlaybook:
    """Return the nodes and the checked syntax tree of a text, as far as it can be parsed. ``tools`` as in
    compile_text.
    """
    tools = KINDS if tools is None else tools
    with CollectorPause():
        root, unreadable = read(source)
        report = Report(source, unreadable, root, tools)
        playbook = _parse(root, report) if root is not None else None
        if playbook is not None:
            for check in CHECKS:
                check(playbook, report)
        diagnostics = sort_and_dedupe(with_indentation_hints(report.found, root))
        found = with_alias_places(source, diagnostics) if root else diagnostics
        return ParsedPlaybook(source, root, playbook, found, tools)


def lowered(found: ParsedPlaybook) -> Result:
    """Return the result of compilation: the graph unless there are errors, and the diagnostics."""
    wrong = any(one.severity is Severity.ERROR for one in found.diagnostics)
    with CollectorPause():
        graph = None if found.playbook is None or wrong else lower(found.playbook, found.source.file)
    return Result(graph, found.diagnostics, found.source, found.scripts)


def _parse(root: Node, report: Report) -> Playbook | None:
    """Return the syntax tree of a document that is a playbook at all."""
    if not isinstance(root, MappingNode) or root.get("workflow") is None:
        _report_missing_workflow(root, report)
        return None
    kind = root.get("kind")
    if isinstance(kind, ScalarNode) and kind.text.lower() != "playbook":
        is_typo = is_misspelt(kind.text.lower(), "playbook")
        message = f'unknown kind "{kind.text}"' if is_typo else f"this is a {kind.text}, not a playbook"
        hint = 'did you mean "Playbook"?' if is_typo else "write kind: Playbook"
        report.error(Code.NOT_A_PLAYBOOK, kind.span, message, hint)
        return None
    return parse(root, report)


def _report_missing_workflow(root: Node, report: Report) -> None:
    keys = [key for key, _ in root.entries] if isinstance(root, MappingNode) else []
    misspelt = next((key for key in keys if is_misspelt(key.text, "workflow")), None)
    if misspelt is not None:
        message = f'unknown key "{misspelt.text}" in a playbook'
        report.error(Code.UNKNOWN_KEY, misspelt.span, message, 'did you mean "workflow"?')
        return
    message, hint = 'not a playbook: "workflow" is missing', "add workflow: with a list of steps"
    report.error(Code.NOT_A_PLAYBOOK, root.span, message, hint)
