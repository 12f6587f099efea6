"""Compile a text to a graph: read, parse, check, lower. Every phase reports errors and continues; an error means no
graph.
"""

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
from noetl_compiler.reading.aliases import add_alias_locations
from noetl_compiler.report import Report
from noetl_compiler.source import SourceFile
from noetl_compiler.syntax import Playbook

__all__ = ["ParsedPlaybook", "compile_parsed", "parse_playbook"]


class ParsedPlaybook(msgspec.Struct, frozen=True):
    """A playbook before it is lowered. If a diagnostic is an error, the syntax tree may be incomplete. ``tools`` are
    the kinds of tools that it may call, ``scripts`` the texts that were fetched for it (scripts.py).
    """

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
        root, errors = read(source)
        report = Report(source, errors, root, tools)
        playbook = _parse(root, report) if root is not None else None
        if playbook is not None:
            for check in CHECKS:
                check(playbook, report)
        diagnostics = sort_and_dedupe(with_indentation_hints(report.diagnostics, root))
        with_aliases = add_alias_locations(source, diagnostics) if root else diagnostics
        return ParsedPlaybook(source, root, playbook, with_aliases, tools)


def compile_parsed(parsed: ParsedPlaybook) -> Result:
    """Return the result of compilation: the graph unless there are errors, and the diagnostics."""
    has_errors = any(diagnostic.severity is Severity.ERROR for diagnostic in parsed.diagnostics)
    with CollectorPause():
        graph = None if parsed.playbook is None or has_errors else lower(parsed.playbook, parsed.source.file)
    return Result(graph, parsed.diagnostics, parsed.source, parsed.scripts)


def _parse(root: Node, report: Report) -> Playbook | None:
    """Return the syntax tree; None if the document is not a playbook."""
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
