"""The written lines with the comments of the author's text, and blank lines between sections.

The written text is read again, which gives the line of every node, and the written nodes carry the places they
had in the author's text: walking both trees side by side gives for every place that survived the line where it
went. A comment on a line of its own goes before the next surviving place, one that trails something goes to
the end of its line, or before it when the line opens a block of text. A blank line that the author left before
something stays before it.
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
    """A place of the author's text, by offset and line, and the index of the line where it went.

    ``apart``: it began a line after a blank one, and begins a line now.
    """

    offset: int
    line: int
    to: int
    apart: bool


class _Margin(msgspec.Struct):
    """The comments before each line and at its end."""

    before: dict[int, list[Comment]] = msgspec.field(default_factory=lambda: defaultdict[int, list[Comment]](list))
    behind: dict[int, list[Comment]] = msgspec.field(default_factory=lambda: defaultdict[int, list[Comment]](list))


def with_comments(text: str, document: MappingNode, written: Node, source: SourceFile) -> str:
    """``text`` is the written ``document``, which reads as ``written``; the comments are those of ``source``."""
    lines = text.removesuffix("\n").split("\n")
    moved = sorted(_moved_places(document, written, source, SourceFile("", text)))
    margin = _placed(comments_of(source), moved, _block_headers(written), len(lines))
    sections = _sections(written) | {one.to for one in moved if one.apart and not lines[one.to - 1].endswith(":")}
    result: list[str] = []
    for number, line in enumerate((*lines, "")):
        indent = line[: len(line) - len(line.lstrip())]
        _begin(result, number in sections)
        for comment in margin.before[number]:
            _begin(result, comment.apart)
            result.append(indent + comment.text)
        result.append("  ".join((line, *(comment.text for comment in margin.behind[number]))))
    return "\n".join(result)


def _begin(result: list[str], apart: bool) -> None:
    """A blank line; never a second one, which would become part of a block of text before it."""
    if apart and result and result[-1]:
        result.append("")


def _placed(comments: tuple[Comment, ...], moved: list[_MovedPlace], headers: set[int], end: int) -> _Margin:
    margin = _Margin()
    for comment in comments:
        trailed = _place_before_comment(comment, moved) if comment.trailing else None
        if trailed is not None and trailed.to not in headers:
            margin.behind[trailed.to].append(comment)
        else:
            margin.before[trailed.to if trailed else _next_line(comment, moved, end)].append(comment)
    return margin


def _next_line(comment: Comment, moved: list[_MovedPlace], end: int) -> int:
    index = bisect.bisect_left(moved, comment.offset, key=lambda one: one.offset)
    return moved[index].to if index < len(moved) else end


def _place_before_comment(comment: Comment, moved: list[_MovedPlace]) -> _MovedPlace | None:
    """Return the last place before the comment on its line."""
    index = bisect.bisect_left(moved, comment.offset, key=lambda one: one.offset)
    if not index or moved[index - 1].line != comment.line:
        return None
    return moved[bisect.bisect_left(moved, moved[index - 1].offset, key=lambda one: one.offset)]


def _moved_places(node: Node, written: Node, source: SourceFile, result: SourceFile) -> Iterator[_MovedPlace]:
    if node.span != NOWHERE:
        line, col = node.span.line, node.span.col
        after_blank = line > 1 and not source.line(line - 1).strip()
        apart = after_blank and _is_first_on_line(source, node.span) and _is_first_on_line(result, written.span)
        yield _MovedPlace(source.offset(line, col), line, written.span.line - 1, apart)
    for child, its in zip(_children(node), _children(written), strict=True):
        yield from _moved_places(child, its, source, result)


def _is_first_on_line(source: SourceFile, span: Span) -> bool:
    """Whether only dashes precede it on its line."""
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
    """Return the lines to precede with a blank line: parts of the document after the head, steps, and named tasks."""
    if not isinstance(root, MappingNode):
        return set()
    parts = {key.span.line - 1 for key, _ in root.entries if key.text not in _HEAD}
    lists = (root.get(key) for key in ("workbook", "workflow"))
    items = (item for found in lists if isinstance(found, SequenceNode) for item in found.items[1:])
    return parts | {item.span.line - 1 for item in items}


_HEAD = frozenset({"apiVersion", "kind", "metadata"})
