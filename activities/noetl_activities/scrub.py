"""Masks secrets in JSON, anywhere in a text and in all usual encodings.

    text ──► searched ──► percent, HTML and backslash escapes decoded (text_view.py) ──► searched ──► ... MAX_LEVELS
                │                                                                            │
                └─────────────────── spans of the original text, replaced by *** ────────────┘

One pattern matches all encodings of all secrets (secret_pattern.py), so a search takes time linear in the text,
independent of the number of secrets. Nothing here recurses, so JSON may have any depth.

Secrets are masked before a text is truncated: otherwise the first half of a secret could remain. ``cut`` does both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, cast

import msgspec

from noetl_activities.secret_pattern import SHORTEST, SecretPattern, Span, secret_pattern
from noetl_activities.text_view import TextView, decoded

__all__ = ["CUT_MARGIN", "MASK", "cut", "scrub"]

MASK = "***"
MAX_LEVELS = 3
"""Levels of nested escapes that are decoded: JSON as text in JSON has two."""

CUT_MARGIN = 16 * 1024
"""Characters needed after the limit, to find a secret that begins before it."""


def scrub(value: Any, secrets: Collection[str]) -> Any:
    """Return a copy of the JSON value with every secret replaced by ``***``, also in keys. Secrets under 4 characters
    are replaced only if they are a whole text or number.
    """
    if not secrets:
        return value
    pattern = secret_pattern(frozenset(secrets))
    return _copied(value, pattern) if _may_hold(value, pattern) else value


def cut(text: str, limit: int, secrets: Collection[str]) -> str:
    """Return the first ``limit`` characters of the text with secrets replaced by ``***``, including one at the limit. A
    text that was truncated before must have CUT_MARGIN characters more than the limit.
    """
    if not secrets:
        return text[:limit]
    return _masked(text, secret_pattern(frozenset(secrets)), limit)


def _may_hold(value: Any, pattern: SecretPattern) -> bool:
    """Whether a value may contain a secret: a quick search of all its text, which is false for most values."""
    if pattern.short:
        return True
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return True
    return bool(_spans(text, pattern, MAX_LEVELS + 1))


def _copied(value: Any, pattern: SecretPattern) -> Any:
    root = [value]
    waiting: list[Any] = [root]
    while waiting:
        container = waiting.pop()
        for key, item in _items(container):
            if isinstance(item, dict):
                members = cast("dict[str, Any]", item).items()
                container[key] = {_leaf(name, pattern): member for name, member in members}
            elif isinstance(item, list | tuple):
                container[key] = list(cast("list[Any]", item))
            else:
                container[key] = _leaf(item, pattern)
                continue
            waiting.append(container[key])
    return root[0]


def _items(container: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(container, dict):
        return cast("dict[str, Any]", container).items()
    return enumerate(cast("list[Any]", container))


def _leaf(value: Any, pattern: SecretPattern) -> Any:
    if isinstance(value, str):
        if value in pattern.whole:
            return MASK
        return _masked(value, pattern) if pattern.may_be_in(value) else value
    if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in pattern.whole:
        return MASK
    return value


def _masked(text: str, pattern: SecretPattern, limit: int | None = None) -> str:
    kept: list[str] = []
    end = 0
    for start, stop in _spans(text, pattern):
        if limit is not None and start >= limit:
            break
        if start >= end:
            kept += (text[end:start], MASK)
        end = max(end, stop)
    if not kept and not end:
        return text[:limit]
    return "".join((*kept, text[end:limit]))


def _spans(text: str, pattern: SecretPattern, levels: int = MAX_LEVELS) -> list[Span]:
    """Return the spans of secrets, in order; the whole text if it has too many escapes to decode."""
    if len(text) < SHORTEST:
        return []
    view = TextView(text)
    spans: list[Span] = []
    for level in range(levels + 1):
        spans += ((view.origin(start), view.origin(end)) for start, end in pattern.spans(view.text))
        try:
            deeper = decoded(view) if level < levels else None
        except ValueError:
            return [(0, len(text))]
        if deeper is None:
            break
        view = deeper
    return sorted(spans)
