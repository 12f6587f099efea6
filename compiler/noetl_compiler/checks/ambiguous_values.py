"""Unquoted values that YAML 1.1 reads differently from how they are written: ``NO`` is false, ``12:30`` is 750.

Only data is checked, where no particular type is expected. ``true``, ``1.50`` and ``0x1F`` are unambiguous there.
Headers and environment variables are strings, so a number there must also keep its spelling.
"""

from __future__ import annotations

import json
import re

from noetl_compiler.checks.secret_patterns import is_secret_key
from noetl_compiler.checks.sizes import DATA_KEYS
from noetl_compiler.codes import Code
from noetl_compiler.nodes import Node, ScalarNode, SequenceNode
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook

__all__ = ["warn_of_ambiguous_values"]

_IS_TEXT_BELOW = {
    **dict.fromkeys((*DATA_KEYS, "ctx", "form", "set", "set_ctx", "set_iter", "set_vars", "vars"), False),
    **dict.fromkeys(("headers", "env"), True),
}
"""Keys of data -> whether every value below becomes a string."""

_NUMBER = re.compile(r"[+-]?0[0-7_]+|\+[0-9_]+|[+-]?[0-9_]+(?::[0-9_]+)+(?:\.[0-9_]*)?|.*_.*")
"""Octal numbers, numbers whose sign is lost, sexagesimal numbers, numbers with underscores."""


def warn_of_ambiguous_values(playbook: Playbook, report: Report) -> None:  # noqa: ARG001 - the same for every check
    """Report NT113."""
    candidates: list[tuple[str, ScalarNode, bool]] = []
    if report.root is not None:
        _collect_plain_values("", report.root, None, candidates)
    for key, node, is_text in candidates:
        if _is_ambiguous(node, is_text):
            report.warning(Code.AMBIGUOUS_VALUE, node.span, *_message_and_hint(key, node, is_text))


def _message_and_hint(key: str, node: ScalarNode, is_text: bool) -> tuple[str, str]:
    """Return the message and the hint, without a value that may be a credential."""
    hint = "quote it to make it a string"
    if is_secret_key(key):
        return "YAML reads this value differently from how it is written", hint
    meaning = json.dumps(node.value)
    return f"the value {node.text} is read as {meaning}", hint if is_text else f"{hint}, or write {meaning}"


def _collect_plain_values(
    key: str, node: Node, is_text: bool | None, candidates: list[tuple[str, ScalarNode, bool]]
) -> None:
    """Collect the unquoted booleans and numbers in data as (key, node, whether it becomes a string).
    ``is_text`` is None outside data.
    """
    if isinstance(node, ScalarNode):
        if is_text is not None and node.style == "plain" and isinstance(node.value, int | float):
            candidates.append((key, node, is_text))
    elif isinstance(node, SequenceNode):
        for item in node.items:
            _collect_plain_values(key, item, is_text, candidates)
    else:
        for name, item in node.entries:
            is_text_below = _IS_TEXT_BELOW.get(name.text) if is_text is None else is_text
            if is_text_below is not None or not isinstance(item, ScalarNode):
                _collect_plain_values(name.text, item, is_text_below, candidates)


def _is_ambiguous(node: ScalarNode, is_text: bool) -> bool:
    if isinstance(node.value, bool):
        return node.text.lower() not in ("true", "false")
    return node.text != str(node.value) if is_text else _NUMBER.fullmatch(node.text) is not None
