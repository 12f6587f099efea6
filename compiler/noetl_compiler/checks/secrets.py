"""Passwords, keys and tokens in plain text. Messages never contain them, and snippets mask them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from noetl_compiler.checks.secret_patterns import (
    Match,
    assigned_secrets,
    is_placeholder,
    is_secret_key,
    is_secret_value,
    may_assign,
    may_have_secret_keys,
    secret_defaults,
    secret_patterns_in,
)
from noetl_compiler.codes import Code
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.reading.scalar_positions import span_in_scalar
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook

__all__ = ["warn_of_secret_literals"]

_HINT = "register a credential and name it in auth, or pass the value in the request"
_SCHEME = re.compile(r"(?:ApiKey|Basic|Bearer|Key|Token)\s+(?=\S{8})", re.IGNORECASE)
_CODE = frozenset({"code", "script"})


def warn_of_secret_literals(playbook: Playbook, report: Report) -> None:  # noqa: ARG001 - the same for every check
    """Report NT111. A secret is recognized by its key, by its pattern, or by the name that it is assigned to."""
    patterns, is_assigning = secret_patterns_in(report.source.text), may_assign(report.source.text)
    suspects: list[tuple[str, ScalarNode]] = []
    collects_all = bool(patterns) or is_assigning
    if report.root is not None and (collects_all or may_have_secret_keys(report.source.text)):
        _collect_suspects("", report.root, suspects, collects_all=collects_all)
    for key, node in suspects:
        matches = [*_matches_by_pattern(node.text, patterns), *_matches_by_key(key, node)]
        if is_assigning and may_assign(node.text):
            matches += assigned_secrets(node.text, is_code=key in _CODE)
        for start, end, description in _without_overlaps(matches):
            span = span_in_scalar(report.source, node, start, end) or node.span
            report.warning(Code.CREDENTIAL_IN_TEXT, span, f"{description} is written in plain text", _HINT)


def _collect_suspects(key: str, node: Node, suspects: list[tuple[str, ScalarNode]], *, collects_all: bool) -> None:
    """Collect strings and numbers as (key, node), in the order of the document; all of them with ``collects_all``, else
    only those whose key says that they are secret.
    """
    if isinstance(node, MappingNode):
        for name, item in node.entries:
            _collect_suspects(name.text, item, suspects, collects_all=collects_all)
    elif isinstance(node, SequenceNode):
        for item in node.items:
            _collect_suspects(key, item, suspects, collects_all=collects_all)
    elif (collects_all or is_secret_key(key)) and node.value is not None and not isinstance(node.value, bool):
        suspects.append((key, node))


def _without_overlaps(matches: list[Match]) -> Iterator[Match]:
    """Yield the matches sorted by position. Of those that overlap, the first is kept, or the longest of the first."""
    position = 0
    for match in sorted(matches, key=lambda match: (match[0], -match[1])):
        if match[0] >= position:
            yield match
            position = match[1]


def _matches_by_pattern(text: str, patterns: Mapping[str, re.Pattern[str]]) -> Iterator[Match]:
    for description, pattern in patterns.items():
        for match in pattern.finditer(text):
            if "secret" not in pattern.groupindex and not is_placeholder(match[0]):
                yield *match.span(), description
            elif "secret" in pattern.groupindex and is_secret_value("password", match["secret"]):
                yield *match.span("secret"), description


def _matches_by_key(key: str, node: ScalarNode) -> Iterator[Match]:
    """Yield a word under a key such as ``password``, or the default value in a template there."""
    if not is_secret_key(key):
        return
    if node.expressions:
        yield from ((start, end, f'the "{key}"') for start, end in secret_defaults(key, node.text))
        return
    text = _SCHEME.sub("", node.text.strip())
    if len(text.split(None, 1)) == 1 and is_secret_value(key, text):
        start = node.text.index(text)
        yield start, start + len(text), f'the "{key}"'
