"""Passwords, keys and tokens in plain text. Messages never contain them, and snippets mask them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from noetl_compiler.checks.secret_shapes import (
    Match,
    assigned_secrets,
    is_placeholder,
    is_secret_key,
    is_secret_value,
    may_assign,
    may_have_secret_keys,
    secret_defaults,
    shapes_in,
)
from noetl_compiler.codes import Code
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.reading.scalar_places import span_in_scalar
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook

__all__ = ["warn_of_secret_literals"]

_HINT = "register a credential and name it in auth, or pass the value in the request"
_SCHEME = re.compile(r"(?:ApiKey|Basic|Bearer|Key|Token)\s+(?=\S{8})", re.IGNORECASE)
_CODE = frozenset({"code", "script"})


def warn_of_secret_literals(playbook: Playbook, report: Report) -> None:  # noqa: ARG001 - the same for every check
    """NT111. A secret is recognized by its key, by its shape, or by the name that it is assigned to."""
    shapes, is_assigning = shapes_in(report.source.text), may_assign(report.source.text)
    suspects: list[tuple[str, ScalarNode]] = []
    is_any = bool(shapes) or is_assigning
    if report.root is not None and (is_any or may_have_secret_keys(report.source.text)):
        _collect("", report.root, suspects, is_any=is_any)
    for key, node in suspects:
        found = [*_of_shape(node.text, shapes), *_of_key(key, node)]
        if is_assigning and may_assign(node.text):
            found += assigned_secrets(node.text, is_code=key in _CODE)
        for start, end, what in _without_overlaps(found):
            span = span_in_scalar(report.source, node, start, end) or node.span
            report.warning(Code.CREDENTIAL_IN_TEXT, span, f"{what} is written in plain text", _HINT)


def _collect(key: str, node: Node, found: list[tuple[str, ScalarNode]], *, is_any: bool) -> None:
    """Collect text and numbers as (key, node), in the order of the document; unless ``is_any``, only those whose key
    says that they are secret.
    """
    if isinstance(node, MappingNode):
        for name, item in node.entries:
            _collect(name.text, item, found, is_any=is_any)
    elif isinstance(node, SequenceNode):
        for item in node.items:
            _collect(key, item, found, is_any=is_any)
    elif (is_any or is_secret_key(key)) and node.value is not None and not isinstance(node.value, bool):
        found.append((key, node))


def _without_overlaps(found: list[Match]) -> Iterator[Match]:
    """Sorted by position. Of matches that overlap, the one that starts first, then the longest."""
    position = 0
    for match in sorted(found, key=lambda match: (match[0], -match[1])):
        if match[0] >= position:
            yield match
            position = match[1]


def _of_shape(text: str, shapes: Mapping[str, re.Pattern[str]]) -> Iterator[Match]:
    for what, shape in shapes.items():
        for found in shape.finditer(text):
            if "secret" not in shape.groupindex and not is_placeholder(found[0]):
                yield *found.span(), what
            elif "secret" in shape.groupindex and is_secret_value("password", found["secret"]):
                yield *found.span("secret"), what


def _of_key(key: str, node: ScalarNode) -> Iterator[Match]:
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
