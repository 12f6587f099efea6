"""Playbooks that call each other, checked across files (semantics.md 27).

A catalog is a folder of playbooks, each known by its catalog path. What one file cannot tell is found here: a call of
a playbook that is not there or has errors, calls that lead back to their caller, and a call that does not pass what
the called playbook needs and has no default for. A path or an input that is a template is known at run time only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import nearest, sort_and_dedupe
from noetl_compiler.graph import Graph, Json, Span, Task
from noetl_compiler.nodes import Node, ScalarNode, SequenceNode
from noetl_compiler.overlay import names_in
from noetl_compiler.phases import Understood, lowered, understand
from noetl_compiler.reader import read_file
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook
from noetl_compiler.templating.check import examine
from noetl_compiler.templating.uses import uses
from noetl_compiler.visible_names import OUTCOME, VisibleNames

__all__ = ["Catalog", "playbook_files", "read_catalog", "with_calls"]

WORKLOAD = frozenset({"workload", "work"})
_SUFFIXES = frozenset({".yaml", ".yml"})


class _Call(NamedTuple):
    """A call of a playbook by name; ``given`` None when what it passes is known at run time only."""

    path: str
    span: Span
    given: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class _Member:
    """A playbook of the catalog. ``calls`` is empty when it has errors."""

    file: str
    is_sound: bool
    needs: frozenset[str]
    calls: tuple[_Call, ...]


Catalog = Mapping[str, _Member]
"""Catalog path -> playbook."""


def playbook_files(folder: Path) -> list[Path]:
    """The YAML files below a folder, by name. Not all need be playbooks."""
    return sorted(file for file in folder.rglob("*") if file.suffix in _SUFFIXES and file.is_file())


def read_catalog(folder: Path) -> Catalog:
    """Every playbook below the folder; of two with the same path the first counts."""
    catalog: dict[str, _Member] = {}
    for file in playbook_files(folder):
        source, unreadable = read_file(file)
        found = understand(source)
        if not unreadable and found.playbook is not None:
            catalog.setdefault(found.playbook.path, _member(found, found.playbook))
    return catalog


def _member(found: Understood, playbook: Playbook) -> _Member:
    graph = lowered(found).graph
    calls = tuple(_calls(graph, found.root)) if graph and found.root else ()
    return _Member(found.source.file, graph is not None, frozenset(_needs(playbook)), calls)


def _needs(playbook: Playbook) -> Iterator[str]:
    """Names that only a request can bring, where their absence fails a step: predicates may do without."""
    names = VisibleNames(playbook)
    for use in uses(playbook):
        for path in () if use.is_predicate else examine(use.template.source).needs:
            head, _, rest = path.partition(".")
            name = rest.partition(".")[0]
            if head in WORKLOAD and name and name not in (names.below(use, head) or ()):
                yield name
            elif head not in OUTCOME and not names.knows(use, head):
                yield head


def _calls(graph: Graph, root: Node) -> Iterator[_Call]:
    for task in (task for step in graph.steps.values() for task in step.tasks if task.kind == "playbook"):
        config: dict[str, Json] = task.config.data
        path = config.get("path")
        if isinstance(path, str) and "/path" not in task.config.templates:
            yield _Call(path, _place(root, task.span, path), _given(task))


def _given(task: Task) -> frozenset[str] | None:
    return None if "" in task.input.templates else frozenset(names_in(task.input))


def _place(node: Node, within: Span, text: str) -> Span:
    """Where the path stands in its task; tasks know their own place only."""
    if isinstance(node, ScalarNode):
        return within
    return next((span for span in _scalars(node, text) if _holds(within, span)), within)


def _scalars(node: Node, text: str) -> Iterator[Span]:
    if isinstance(node, ScalarNode):
        if node.text == text:
            yield node.span
        return
    children = node.items if isinstance(node, SequenceNode) else (item for _, item in node.entries)
    for child in children:
        yield from _scalars(child, text)


def _holds(outer: Span, inner: Span) -> bool:
    begins = (outer.line, outer.col) <= (inner.line, inner.col)
    return begins and (inner.end_line, inner.end_col) <= (outer.end_line, outer.end_col)


def with_calls(found: Understood, catalog: Catalog) -> Understood:
    """The same with what is wrong with its calls: NT601, NT602, NT603 and NT604."""
    if found.playbook is None:
        return found
    report = Report(found.source, found.diagnostics, found.root)
    for call in _member(found, found.playbook).calls:
        called = catalog.get(call.path)
        if called is None:
            message = f'the catalog has no playbook "{call.path}"'
            report.error(Code.UNKNOWN_PLAYBOOK, call.span, message, nearest(call.path, catalog))
        else:
            _check_circle(found.playbook.path, call, catalog, report)
            _check_called(call, called, report)
    return replace(found, diagnostics=sort_and_dedupe(report.found))


def _check_called(call: _Call, called: _Member, report: Report) -> None:
    if not called.is_sound:
        message = f'the playbook "{call.path}" has errors'
        report.error(Code.UNSOUND_PLAYBOOK, call.span, message, f"noetl compile {called.file}")
    missing = sorted(called.needs - call.given) if call.given is not None else []
    if missing:
        names = ", ".join(f'"{name}"' for name in missing)
        message = f'"{call.path}" needs {names}, which this call does not pass'
        report.warning(Code.MISSING_INPUT, call.span, message, "pass it as input, or give it a default in its workload")


def _check_circle(start: str, call: _Call, catalog: Catalog, report: Report) -> None:
    way = _way_back(start, call.path, catalog)
    if way:
        shown = " -> ".join(f'"{path}"' for path in (start, *way))
        message = f"this call leads back to its own playbook: {shown}"
        report.warning(Code.PLAYBOOK_CIRCLE, call.span, message, "a condition on the way has to end it")


def _way_back(start: str, first: str, catalog: Catalog) -> Sequence[str]:
    """The shortest way of calls from ``first`` to ``start``, both included; nothing when there is none."""
    ways: list[tuple[str, ...]] = [(first,)]
    seen = {first}
    for way in ways:
        if way[-1] == start:
            return way
        member = catalog.get(way[-1])
        for call in member.calls if member else ():
            if call.path not in seen:
                seen.add(call.path)
                ways.append((*way, call.path))
    return ()
