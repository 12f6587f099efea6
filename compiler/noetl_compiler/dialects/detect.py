"""Detect the dialect of a playbook by its constructs, not by apiVersion: v10 files have noetl.io/v2, as older ones do.

Each construct that only one dialect has is a mark of that dialect. Mixed files are decided in this order:

1. v1 if a step is an iterator, or if there are at least as many marks of v1 as tools;
2. case if it has a mark; ``loop`` in a tool does not count beside marks of v10 other than ``tool: {kind}``;
3. legacy if it has more marks than v10;
4. v10, but without marks of v10 the apiVersion of v1 means legacy if there are tools, else v1.

Marks of another dialect are reported, and the front ends read them if they are unambiguous.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from noetl_compiler.codes import Code
from noetl_compiler.language.constructs.playbook import V1_API_VERSION
from noetl_compiler.language.words import DIALECTS, Dialect
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.report import Report
from noetl_compiler.source import Span

__all__ = ["detect"]

_TOOL_KIND = '"tool: {kind}"'

_LOOP_OF_TOOL = '"loop" in a tool'

_ITERATOR = '"tool: iterator"'


def _dialect_with_dates(dialect: Dialect) -> str:
    return f"{dialect} ({DIALECTS.about[dialect]})"


class _Mark(msgspec.Struct, frozen=True):
    """A construct that only one dialect has. ``is_tool``: it declares the tool of a step."""

    dialect: Dialect
    construct: str
    span: Span
    is_tool: bool


def detect(root: MappingNode, report: Report) -> Dialect:
    """Return the dialect of a document; warn if it mixes two."""
    marks = [mark for step in _steps(root) for mark in _marks(step)]
    dialect = _dialect_of(root, marks)
    foreign = next((mark for mark in marks if _is_foreign(mark, dialect)), None)
    if foreign is not None and dialect != "v1":  # v1 has constructs of every later dialect
        own_construct = next((mark.construct for mark in marks if mark.dialect == dialect), "")
        dialect_of_construct, dialect_of_playbook = map(_dialect_with_dates, (foreign.dialect, dialect))
        message = f"{foreign.construct} is {dialect_of_construct}, but this playbook is {dialect_of_playbook}"
        reason = f"it is read as {dialect} because of {own_construct}" if own_construct else ""
        report.warning(Code.MIXED_DIALECTS, foreign.span, message, reason)
    return dialect


def _is_iterator(step: MappingNode) -> bool:
    kinds = (step.get("type"), step.get("tool"))
    return any(isinstance(kind, ScalarNode) and kind.text == "iterator" for kind in kinds)


def _is_foreign(mark: _Mark, dialect: Dialect) -> bool:
    """Whether a mark belongs to another dialect. ``tool: {kind}`` belongs to both v10 and case, and v10 reports a loop
    in a tool as an error.
    """
    return mark.dialect != dialect and (dialect, mark.construct) not in (("case", _TOOL_KIND), ("v10", _LOOP_OF_TOOL))


def _dialect_of(root: MappingNode, marks: list[_Mark]) -> Dialect:
    counts = Counter(mark.dialect for mark in marks)
    tool_count = sum(mark.is_tool for mark in marks)
    is_iterating = any(map(_is_iterator, _steps(root)))  # late v1, in which tools were already words
    if is_iterating or (counts["v1"] and counts["v1"] >= tool_count):  # later dialects share other marks of v1
        return "v1"
    has_v10_mark = any(mark.dialect == "v10" and mark.construct != _TOOL_KIND for mark in marks)
    if any(mark.dialect == "case" and not (has_v10_mark and mark.construct == _LOOP_OF_TOOL) for mark in marks):
        return "case"
    if counts["legacy"] > counts["v10"]:
        return "legacy"
    version = root.get("apiVersion")
    if not counts["v10"] and isinstance(version, ScalarNode) and version.text == V1_API_VERSION:
        return "legacy" if tool_count else "v1"
    return "v10"


def _steps(root: MappingNode) -> Iterator[MappingNode]:
    workflow = root.get("workflow")
    if isinstance(workflow, SequenceNode):
        yield from (node for node in workflow.items if isinstance(node, MappingNode))


def _marks(step: MappingNode) -> Iterator[_Mark]:
    """Yield the marks of a step in document order, one for each construct."""
    for key, node in step.entries:
        mark = _mark_of(key.text, node)
        if mark is not None:
            yield _Mark(*mark, key.span, is_tool=key.text == "tool" and mark[1] != _LOOP_OF_TOOL)


def _mark_of(key: str, node: Node) -> tuple[Dialect, str] | None:
    match key:
        case "case":
            return "case", '"case"'
        case "type" | "call" | "end_loop":
            return "v1", f'"{key}" on a step'
        case "retry" | "sink":
            return "legacy", f'"{key}" on a step'
        case "set" | "set_ctx" | "input":
            return "v10", f'"{key}" on a step'
        case "tool":
            return _tool_mark(node)
        case "loop" | "next" | "spec":
            return _mark_below(key, node)
        case _:
            return None


def _tool_mark(node: Node) -> tuple[Dialect, str] | None:
    if isinstance(node, ScalarNode) and node.value is None:
        return None  # usually a mapping that is not indented
    if isinstance(node, MappingNode) and node.get("loop"):
        return "case", _LOOP_OF_TOOL
    if isinstance(node, ScalarNode):
        construct = f'"tool: {node.text}"'
        return "v1" if construct == _ITERATOR else "legacy", construct
    return "v10", '"tool" as a list' if isinstance(node, SequenceNode) else _TOOL_KIND


def _mark_below(key: str, node: Node) -> tuple[Dialect, str] | None:
    if isinstance(node, SequenceNode):
        has_then = any(isinstance(item, MappingNode) and item.get("then") for item in node.items)
        return ("legacy", '"next" with when/then') if key == "next" and has_then else None
    if not isinstance(node, MappingNode):
        return None
    if key == "spec" and (node.get("case_mode") or node.get("eval_mode")):
        return "case", '"spec.case_mode"'
    if key == "next" and node.get("arcs"):
        return "v10", '"next.arcs"'
    if key == "loop" and (node.get("collection") or node.get("element")):
        return "legacy", '"loop.collection"'
    return None
