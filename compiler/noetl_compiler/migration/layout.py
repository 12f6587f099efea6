"""Adds the comments of the original text, and blank lines between sections, to the migrated text.

The migrated text is parsed again, which gives the new line of every node; the emitted nodes have their spans in the
original text. Walking both trees in parallel maps original positions to new lines. A comment on a line of its own is
inserted before the next position that still exists. A trailing comment is appended to the new line, or inserted before
it if the line is the header of a block scalar. Blank lines before a position are kept.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from noetl_compiler.migration.comments import Comment, comments_of
from noetl_compiler.migration.source_lookup import NO_SPAN
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.source import SourceFile, Span

__all__ = ["with_comments"]


class _MovedPosition(msgspec.Struct, frozen=True, order=True):
    """The position of a node in the original text, by offset and line, and the index of its new line.

    ``follows_blank_line``: it does so in the original, and begins its line in both texts.
    """

    offset: int
    line: int
    new_line_index: int
    follows_blank_line: bool


class _Margin(msgspec.Struct):
    """The comments before each line and at its end."""

    before: dict[int, list[Comment]] = msgspec.field(default_factory=lambda: defaultdict[int, list[Comment]](list))
    at_end: dict[int, list[Comment]] = msgspec.field(default_factory=lambda: defaultdict[int, list[Comment]](list))


def with_comments(text: str, document: MappingNode, new_root: Node, source: SourceFile) -> str:
    """Return ``text`` with the comments of ``source``.

    ``text`` was written from ``document``; ``new_root`` is the root of ``text`` parsed again.
    """
    lines = text.removesuffix("\n").split("\n")
    moved_positions = sorted(_moved_positions(document, new_root, source, SourceFile("", text)))
    margin = _assign_comments(comments_of(source), moved_positions, _block_headers(new_root), len(lines))
    sections = _sections(new_root) | {
        position.new_line_index
        for position in moved_positions
        if position.follows_blank_line and not lines[position.new_line_index - 1].endswith(":")
    }
    result: list[str] = []
    for number, line in enumerate((*lines, "")):
        indent = line[: len(line) - len(line.lstrip())]
        if number in sections:
            _add_blank_line(result)
        for comment in margin.before[number]:
            if comment.follows_blank_line:
                _add_blank_line(result)
            result.append(indent + comment.text)
        result.append("  ".join((line, *(comment.text for comment in margin.at_end[number]))))
    return "\n".join(result)


def _add_blank_line(result: list[str]) -> None:
    """Add a blank line, but never a second one, which would become part of a block scalar before it."""
    if result and result[-1]:
        result.append("")


def _assign_comments(
    comments: tuple[Comment, ...], moved_positions: list[_MovedPosition], headers: set[int], end: int
) -> _Margin:
    margin = _Margin()
    for comment in comments:
        position_before = _position_before_comment(comment, moved_positions) if comment.is_trailing else None
        if position_before is not None and position_before.new_line_index not in headers:
            margin.at_end[position_before.new_line_index].append(comment)
        else:
            margin.before[
                position_before.new_line_index if position_before else _next_line(comment, moved_positions, end)
            ].append(comment)
    return margin


def _next_line(comment: Comment, moved_positions: list[_MovedPosition], end: int) -> int:
    index = bisect.bisect_left(moved_positions, comment.offset, key=lambda position: position.offset)
    return moved_positions[index].new_line_index if index < len(moved_positions) else end


def _position_before_comment(comment: Comment, moved_positions: list[_MovedPosition]) -> _MovedPosition | None:
    """Return the last position before the comment on its line; if several nodes begin there, that of the first."""
    index = bisect.bisect_left(moved_positions, comment.offset, key=lambda position: position.offset)
    if not index or moved_positions[index - 1].line != comment.line:
        return None
    return moved_positions[
        bisect.bisect_left(moved_positions, moved_positions[index - 1].offset, key=lambda position: position.offset)
    ]


def _moved_positions(node: Node, new_node: Node, source: SourceFile, result: SourceFile) -> Iterator[_MovedPosition]:
    if node.span != NO_SPAN:
        line, col = node.span.line, node.span.col
        after_blank = line > 1 and not source.line(line - 1).strip()
        follows_blank_line = (
            after_blank and _is_first_on_line(source, node.span) and _is_first_on_line(result, new_node.span)
        )
        yield _MovedPosition(source.offset(line, col), line, new_node.span.line - 1, follows_blank_line)
    for child, new_child in zip(_children(node), _children(new_node), strict=True):
        yield from _moved_positions(child, new_child, source, result)


def _is_first_on_line(source: SourceFile, span: Span) -> bool:
    """Whether a span begins its line, apart from dashes."""
    return not source.line(span.line)[: span.col - 1].strip(" -")


def _children(node: Node) -> tuple[Node, ...]:
    if isinstance(node, MappingNode):
        return tuple(part for entry in node.entries for part in entry)
    return node.items if isinstance(node, SequenceNode) else ()


def _block_headers(node: Node) -> set[int]:
    if isinstance(node, ScalarNode):
        return {node.span.line - 1} if node.style in ("literal", "folded") else set()
    return {line for child in _children(node) for line in _block_headers(child)}


def _sections(root: Node) -> set[int]:
    """Return the lines that follow a blank line: root keys after the head, steps, and workbook tasks."""
    if not isinstance(root, MappingNode):
        return set()
    parts = {key.span.line - 1 for key, _ in root.entries if key.text not in _HEAD}
    lists = (root.get(key) for key in ("workbook", "workflow"))
    items = (item for section in lists if isinstance(section, SequenceNode) for item in section.items[1:])
    return parts | {item.span.line - 1 for item in items}


_HEAD = frozenset({"apiVersion", "kind", "metadata"})
