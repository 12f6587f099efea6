"""Passwords, keys and tokens in plain text. A message never repeats one, and a snippet masks it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from noetl_compiler.codes import Code
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook

__all__ = ["warn_of_secret_literals"]

_SECRET_KEY = re.compile(
    r"(?:.*[_-])?(?:password|passwd|pwd|passphrase|secret|token|api[_-]?key|apikey|(?:private|access|secret)[_-]?key)",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"(?:password|passwd|pwd|passphrase)$", re.IGNORECASE)
_PLACEHOLDER = re.compile(
    r"(?:<.*>|\$\{?.*\}?|\*+|x+|\.{3}|-|none|null|true|false|.*(?:change[_-]?me|your[_-]|placeholder|example|dummy|redacted).*)",
    re.IGNORECASE | re.DOTALL,
)
_NAME = re.compile(r"[a-z]+(?:[-_./:][a-z]+)+")
"""How credentials and secrets are named in a store; what is one in plain text has digits or no such parts."""

_SHAPES = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"),
    "an access key of AWS": re.compile(r"A[KS]IA(?<!\wA[KS]IA)[0-9A-Z]{16}\b"),
    "a token of GitHub": re.compile(r"gh[pousr]_(?<!\wgh._)[A-Za-z0-9]{36}|github_pat_\w{60}"),
    "a token of Slack": re.compile(r"xox[abprs]-(?<!\wxox.-)[A-Za-z0-9-]{10}"),
    "a key of Google": re.compile(r"AIza(?<!\wAIza)[0-9A-Za-z_-]{35}\b"),
    "an API key": re.compile(r"sk-(?<!\wsk-)(?=[a-z-]{0,40}[A-Z0-9])[A-Za-z0-9_-]{32}|[rs]k_live_[0-9A-Za-z]{20}"),
    "a JSON web token": re.compile(r"eyJ(?<!\weyJ)[A-Za-z0-9_-]{8,200}\.eyJ[A-Za-z0-9_-]{8}"),
    "a password in a URL": re.compile(r"://[^\s:/@{}]{1,60}:(?!\*)[^\s:/@{}$<]{1,100}@"),
    "a bearer token": re.compile(r"Bearer\s(?=[A-Za-z._~+/-]{0,60}\d)[A-Za-z0-9._~+/-]{20}"),
}
"""What begins with plain characters is found fast, and all quantifiers are bounded: no text takes more time than its
length.
"""

_HINT = "register it as a credential and name that in auth, or let the request bring it"


def warn_of_secret_literals(playbook: Playbook, report: Report) -> None:  # noqa: ARG001 - the same for every check
    """NT111. Told by the key a text stands under, or by its own shape."""
    shapes = {what: shape for what, shape in _SHAPES.items() if shape.search(report.source.text)}
    for key, node in _texts("", report.root) if report.root is not None else ():
        what = _shape(node.text, shapes) or _under(key, node)
        if what:
            report.warning(Code.CREDENTIAL_IN_TEXT, node.span, f"{what} stands here in plain text", _HINT)


def _texts(key: str, node: Node) -> Iterator[tuple[str, ScalarNode]]:
    """Every text with the key it stands under."""
    if isinstance(node, MappingNode):
        for name, item in node.entries:
            yield from _texts(name.text, item)
    elif isinstance(node, SequenceNode):
        for item in node.items:
            yield from _texts(key, item)
    elif isinstance(node.value, str):
        yield key, node


@lru_cache(maxsize=1024)
def _is_secret(key: str) -> bool:
    return _SECRET_KEY.fullmatch(key) is not None


def _shape(text: str, shapes: Mapping[str, re.Pattern[str]]) -> str:
    return next((what for what, shape in shapes.items() if shape.search(text)), "")


def _under(key: str, node: ScalarNode) -> str:
    """A word under a key such as ``password``, unless it is a template, a placeholder or a mere name."""
    if node.expressions or not _is_secret(key):
        return ""
    text = node.text.strip()
    if len(text.split(None, 1)) != 1:
        return ""
    is_name = _NAME.fullmatch(text) and not _PASSWORD.search(key)
    return "" if is_name or _PLACEHOLDER.fullmatch(text) else f'the "{key}"'
