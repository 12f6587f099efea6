"""Adds the comments of the original text, and blank lines between sections, to the migrated text.

The migrated text is parsed again, which gives the new line of every node; the nodes that were written have their places
in the original text. Walking both trees in parallel maps original places to new lines. A comment on a line of its own
is inserted before the next place that still exists. A trailing comment is appended to the new line, or inserted before
it if the line is the header of a block scalar. Blank lines before a place are kept.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from noetl_compiler.migration.comments import Comment, comments_of
from noetl_compiler.migration.source_lookup import NOWHERE
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.source import SourceFile, Span

__all__ = ["with_comments"]


class _MovedPlace(msgspec.Struct, frozen=True, order=True):
    """A place in the original text, by offset and line, and the index of its new line.

    ``apart``: it followed a blank line, and is the first on its line in both texts.
    """

    offset: int
    line: int
    to: int
    apart: bool


class _Margin(msgspec.Struct):
    """The comments before each line and at its end."""

    before: dict[int, list[Comment]] = msgspec.field(default_factory=lambda: defaultdict[int, list[Comment]](list))
    behind: dict[int, list[Comment]] = msgspec.field(default_factory=lambda: defaultdict[int, list[Comment]](list))


def with_comments(text: str, document: MappingNode, written_root: Node, source: SourceFile) -> str:
    """Return ``text`` with the comments of ``source``.

    ``text`` was written from ``document``; ``written_root`` is the root of ``text`` parsed again.
    """
    lines = text.removesuffix("\n").split("\n")
    moved_places = sorted(_moved_places(document, written_root, source, SourceFile("", text)))
    margin = _place_comments(comments_of(source), moved_places, _block_headers(written_root), len(lines))
    sections = _sections(written_root) | {
        place.to for place in moved_places if place.apart and not lines[place.to - 1].endswith(":")
    }
    result: list[str] = []
    for number, line in enumerate((*lines, "")):
        indent = line[: len(line) - len(line.lstrip())]
        _add_blank_line(result, number in sections)
        for comment in margin.before[number]:
            _add_blank_line(result, comment.apart)
            result.append(indent + comment.text)
        result.append("  ".join((line, *(comment.text for comment in margin.behind[number]))))
    return "\n".join(result)


def _add_blank_line(result: list[str], apart: bool) -> None:
    """Add a blank line if ``apart``, but never a second one, which would become part of a block scalar before it."""
    if apart and result and result[-1]:
        result.append("")


def _place_comments(
    comments: tuple[Comment, ...], moved_places: list[_MovedPlace], headers: set[int], end: int
) -> _Margin:
    margin = _Margin()
    for comment in comments:
        place_before = _place_before_comment(comment, moved_places) if comment.trailing else None
        if place_before is not None and place_before.to not in headers:
            margin.behind[place_before.to].append(comment)
        else:
            margin.before[place_before.to if place_before else _next_line(comment, moved_places, end)].append(comment)
    return margin


def _next_line(comment: Comment, moved_places: list[_MovedPlace], end: int) -> int:
    index = bisect.bisect_left(moved_places, comment.offset, key=lambda place: place.offset)
    return moved_places[index].to if index < len(moved_places) else end


def _place_before_comment(comment: Comment, moved_places: list[_MovedPlace]) -> _MovedPlace | None:
    """Return the last place before the comment on its line."""
    index = bisect.bisect_left(moved_places, comment.offset, key=lambda place: place.offset)
    if not index or moved_places[index - 1].line != comment.line:
        return None
    return moved_places[
        bisect.bisect_left(moved_places, moved_places[index - 1].offset, key=lambda place: place.offset)
    ]


def _moved_places(node: Node, written_node: Node, source: SourceFile, result: SourceFile) -> Iterator[_MovedPlace]:
    if node.span != NOWHERE:
        line, col = node.span.line, node.span.col
        after_blank = line > 1 and not source.line(line - 1).strip()
        apart = after_blank and _is_first_on_line(source, node.span) and _is_first_on_line(result, written_node.span)
        yield _MovedPlace(source.offset(line, col), line, written_node.span.line - 1, apart)
    for child, written_child in zip(_children(node), _children(written_node), strict=True):
        yield from _moved_places(child, written_child, source, result)


def _is_first_on_line(source: SourceFile, span: Span) -> bool:
    """Whether the place is the first on its line, apart from dashes."""
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
