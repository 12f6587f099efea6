"""Find the offsets of words and syntax errors in the source of a template. Jinja itself only reports lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Literal, TypeAlias

from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import ignored_tokens
from jinja2.parser import Parser

from noetl_compiler.graph import Span, Template
from noetl_compiler.nodes import Node, ScalarNode, SequenceNode
from noetl_compiler.reading.scalar_positions import span_in_scalar
from noetl_compiler.source import SourceFile, expression_ranges
from noetl_compiler.templating.sandbox import ENVIRONMENT

__all__ = [
    "Role",
    "TemplateLocator",
    "explain_syntax_error",
    "find_path",
    "find_word",
    "locate_syntax_error",
    "scalars",
]

Role: TypeAlias = Literal["filter", "test", "call", "method", "attribute", "string"]

_ROLES: dict[Role, str] = {
    "filter": r"\|\s*(NAME)\b",
    "test": r"\bis\s+(?:not\s+)?(NAME)\b",
    "call": r"(?<![\w.])(NAME)\s*\(",
    "method": r"\.\s*(NAME)\s*\(",
    "attribute": r"\.\s*(NAME)\b",
    "string": r"(['\"]NAME['\"])",
}
_STRING = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_BRACKET = re.compile(rf"{_STRING.pattern}|[()\[\]{{}}]", re.DOTALL)
_SINGLE_BRACE = re.compile(r"unexpected '\}'")
"""The lexer's message for an unmatched ``}``."""
_OPEN_COMMENT = "end of comment tag"
"""The lexer's message for a comment that is not closed."""
_OFFSET = re.compile(r" at (\d+)$")
"""The offset in the lexer's message for an unknown character."""

_MAX_PARSED_EXPRESSIONS = 50
_MAX_PARSED_CHARS = 10_000


def find_word(source: str, word: str, role: Role, line: int = 1) -> tuple[int, int]:
    """Return start and end of the first use of ``word`` in a role, searched from the 1-based ``line`` on."""
    return _find(source, _ROLES[role].replace("NAME", re.escape(word)), _line_start(source, line))


def find_path(source: str, path: str) -> tuple[int, int]:
    """Return start and end of the first use of a dotted path: ``a.b``, ``a['b']``."""
    head, *remaining_names = path.split(".")
    patterns = (rf"\s*(?:\.\s*{re.escape(name)}\b|\[\s*['\"]{re.escape(name)}['\"]\s*\])" for name in remaining_names)
    return _find(source, rf"(?<![\w.])({re.escape(head)}\b{''.join(patterns)})", max(0, source.find(head)))


def _find(source: str, pattern: str, start: int) -> tuple[int, int]:
    """Return the span of the pattern's first group inside an expression and outside strings; else the start."""
    ranges = _expression_ranges(source)
    for match in re.compile(pattern).finditer(source, start):
        first, last = match.span(1)
        index = bisect_right(ranges, (first, len(source))) - 1
        if index >= 0 and last <= ranges[index][1] and not _is_in_string(source, ranges[index], first):
            return first, last
    return start, start


@lru_cache(maxsize=4)
def _expression_ranges(source: str) -> tuple[tuple[int, int], ...]:
    return expression_ranges(source)


def _is_in_string(source: str, expression: tuple[int, int], offset: int) -> bool:
    return any(string.start() < offset < string.end() for string in _STRING.finditer(source, *expression))


def locate_syntax_error(source: str, error: TemplateSyntaxError) -> tuple[int, int]:
    """Return start and end of a syntax error, as precisely as possible.

    Tries in this order: the character that Jinja names, the unclosed comment, the unexpected token of the first
    expression that does not parse, an expression on the line, the start of the line.
    """
    if match := _OFFSET.search(error.message or ""):
        return int(match[1]), int(match[1]) + 1
    if _OPEN_COMMENT in (error.message or ""):
        return source.rfind("{#"), len(source)
    start = _line_start(source, error.lineno)
    ranges = [range_ for range_ in expression_ranges(source) if range_[1] >= start]
    if _SINGLE_BRACE.fullmatch(error.message or "") and (brace := _find_single_brace(source, ranges)) is not None:
        return brace, brace + 1
    for begin, end in ranges[:_MAX_PARSED_EXPRESSIONS]:
        if source.startswith("{{", begin) and (token := _unexpected_token(source[begin:end])) is not None:
            return begin + token[0], begin + token[1]
    return next(iter(ranges), (start, start))


def _find_single_brace(source: str, ranges: Iterable[tuple[int, int]]) -> int | None:
    """Return the offset of an unmatched ``}`` in an expression."""
    for begin, end in ranges:
        depth = 0
        for bracket in _BRACKET.finditer(source, begin + 2, end):
            if bracket.group() in ("(", "[", "{"):
                depth += 1
            elif depth:
                depth -= bracket.group() in (")", "]", "}")
            elif source.startswith("}}", bracket.start()) or source.startswith("%}", bracket.start() - 1):
                break
            elif bracket.group() == "}":
                return bracket.start()
    return None


def _unexpected_token(expression: str) -> tuple[int, int] | None:
    """Return the range of the token that the parser did not expect; None if the expression parses."""
    if len(expression) > _MAX_PARSED_CHARS:
        return 0, len(expression)
    parser = None
    try:
        parser = Parser(ENVIRONMENT, expression)
        parser.parse()
    except TemplateSyntaxError:
        return _token_range(expression, 0 if parser is None else _count_remaining_tokens(parser))
    except (RecursionError, ValueError, OverflowError, MemoryError):  # too deep, or a number too long
        return 0, len(expression)
    return None


def _count_remaining_tokens(parser: Parser) -> int:
    """Count the tokens after the one at which the parser stopped."""
    try:
        return sum(1 for _ in parser.stream)
    except TemplateSyntaxError:
        return 0


def _token_range(expression: str, remaining_count: int) -> tuple[int, int]:
    """Return the range of the token that is followed by ``remaining_count - 1`` other tokens."""
    try:
        tokens = list(ENVIRONMENT.lex(expression))
    except TemplateSyntaxError:
        return 0, len(expression)
    ends = accumulate(len(text) for _, _, text in tokens)
    ranges = [
        (end - len(text), end) for end, (_, kind, text) in zip(ends, tokens, strict=True) if kind not in ignored_tokens
    ]
    return ranges[-remaining_count] if 0 < remaining_count <= len(ranges) else (0, len(expression))


def _line_start(source: str, line: int) -> int:
    offset = 0
    for _ in range(line - 1):
        offset = source.find("\n", offset) + 1
    return offset


_OPENING = "{{ "


class TemplateLocator:
    """Maps offsets in the templates of a document to spans of its source."""

    def __init__(self, source: SourceFile, root: Node | None) -> None:
        self._source = source
        self._root = root

    def span(self, template: Template, start: int, end: int) -> Span:
        """Return the span of ``template.source[start:end]``, or of the enclosing expression or template if that is
        all that is known.
        """
        node = self._nodes.get(template.span)
        if node is None:
            return template.span
        if template.source != node.text:  # "{{ item.age > 3 }}" may be written without its braces
            if template.source != f"{_OPENING}{node.text} }}}}":
                return template.span
            start, end = start - len(_OPENING), end - len(_OPENING)
        return span_in_scalar(self._source, node, start, end) or self._expression_span(node, start)

    def path_span(self, template: Template, path: str) -> Span:
        """Return the span of the first use of a dotted path in a template."""
        return self.span(template, *find_path(template.source, path))

    def _expression_span(self, node: ScalarNode, start: int) -> Span:
        spans = zip(expression_ranges(node.text), node.expressions, strict=True)
        return next((span for (begin, end), span in spans if begin <= start < end), node.span)

    @cached_property
    def _nodes(self) -> dict[Span, ScalarNode]:
        nodes = scalars(self._root) if self._root is not None else ()
        return {node.template_span or node.span: node for node in nodes}


def scalars(node: Node) -> Iterator[ScalarNode]:
    """Yield every scalar value in document order; an aliased one at each use."""
    if isinstance(node, ScalarNode):
        yield node
        return
    children = node.items if isinstance(node, SequenceNode) else (item for _, item in node.entries)
    for child in children:
        yield from scalars(child)


_DELIMITERS = {
    "end of print statement": "}}",
    "end of statement block": "%}",
    "begin of print statement": "{{",
    "begin of statement block": "{%",
}
"""Jinja's names of delimiters -> the delimiters."""

_QUOTED = re.compile(r"'([^']*)'")
_OPEN_BLOCK = re.compile(r'innermost block that needs to be closed is "(\w+)"')
_EXPLANATIONS = (
    (re.compile(r'end of template, expected "}}"|got "end of template"'), "the braces are not closed", "write }}"),
    (re.compile(r'end of template, expected "%}"'), "the braces are not closed", "write %}"),
    (re.compile(r'^unexpected "}"$'), "the braces are closed by a single }", "close them with }}"),
    (re.compile(r'unexpected "[}%]}"$'), "the expression is incomplete", "complete it, or remove it"),
)
"""Pattern of Jinja's message -> our message and a hint."""

_HINTS = (
    (re.compile(r'got "="$'), "write == to compare"),
    (re.compile(r'(?:char|got) "&"'), "write and"),
    (re.compile(r'got "\|"$'), "write or; one | stands before a filter"),
    (re.compile(r'(?:char|got) "!"'), "write not"),
    (re.compile(r'char "\?"'), "write a if condition else b"),
    (re.compile(r'char "\$"'), "write {{ name }} without $"),
)


def explain_syntax_error(message: str) -> tuple[str, str]:
    """Translate Jinja's message into a message and a hint ("" if there is none), without the position."""
    text = _QUOTED.sub(r'"\1"', _OFFSET.sub("", message[:1].lower() + message[1:].removesuffix(".")))
    for jinja_name, delimiter in _DELIMITERS.items():
        text = text.replace(jinja_name, delimiter)
    if block := _OPEN_BLOCK.search(text):
        return f'the block "{block[1]}" is not closed', f"write {{% end{block[1]} %}} after it"
    for pattern, explanation, hint in _EXPLANATIONS:
        if pattern.search(text):
            return explanation, hint
    return text, next((hint for pattern, hint in _HINTS if pattern.search(text)), "")
