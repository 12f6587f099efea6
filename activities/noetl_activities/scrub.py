"""Masks secrets in JSON, anywhere in its strings and in all usual encodings.

    text ──► searched ──► percent, HTML and backslash escapes decoded (text_view.py) ──► searched ──► ... MAX_LEVELS
                │                                                                            │
                └─────────────────── spans of the original text, replaced by *** ────────────┘

One pattern matches all encodings of all secrets (secret_pattern.py), so a search takes time linear in the text,
independent of the number of secrets. Nothing here recurses, so JSON may have any depth.

Secrets are masked before a text is truncated: otherwise the first half of a secret could remain. ``truncate`` does
both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, cast

import msgspec

from noetl_activities.secret_pattern import MIN_SECRET_CHARS, SecretPattern, Span, secret_pattern
from noetl_activities.text_view import TextView, decode_level

__all__ = ["MASK", "TRUNCATION_MARGIN", "scrub", "truncate"]

MASK = "***"
MAX_LEVELS = 3
"""Levels of nested escapes that are decoded: JSON as text in JSON has two."""

TRUNCATION_MARGIN = 16 * 1024
"""How many characters after the limit ``truncate`` needs, to find a secret that begins before the limit."""


def scrub(value: Any, secrets: Collection[str]) -> Any:
    """Return a copy of the JSON value with all secrets replaced by ``***``, also in keys. Secrets under 4 characters
    are replaced only if they are a whole string or number.
    """
    if not secrets:
        return value
    pattern = secret_pattern(frozenset(secrets))
    return _mask_copy(value, pattern) if _may_contain(value, pattern) else value


def truncate(text: str, limit: int, secrets: Collection[str]) -> str:
    """Return the first ``limit`` characters of the text with secrets replaced by ``***``. A secret that crosses the
    limit becomes a whole ``***``. A text that is already truncated must have TRUNCATION_MARGIN more characters than the
    limit.
    """
    if not secrets:
        return text[:limit]
    return _mask_text(text, secret_pattern(frozenset(secrets)), limit)


def _may_contain(value: Any, pattern: SecretPattern) -> bool:
    """Whether a value may contain a secret. Searches its JSON, which is faster than making a masked copy."""
    if pattern.short_secrets:
        return True
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return True
    return bool(_spans(text, pattern, MAX_LEVELS + 1))  # encoding as JSON adds a level


def _mask_copy(value: Any, pattern: SecretPattern) -> Any:
    root = [value]
    pending: list[Any] = [root]
    while pending:
        container = pending.pop()
        for key, item in _items(container):
            if isinstance(item, dict):
                members = cast("dict[str, Any]", item).items()
                container[key] = {_mask_leaf(name, pattern): member for name, member in members}
            elif isinstance(item, list | tuple):
                container[key] = list(cast("list[Any]", item))
            else:
                container[key] = _mask_leaf(item, pattern)
                continue
            pending.append(container[key])
    return root[0]


def _items(container: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(container, dict):
        return cast("dict[str, Any]", container).items()
    return enumerate(cast("list[Any]", container))


def _mask_leaf(value: Any, pattern: SecretPattern) -> Any:
    if isinstance(value, str):
        if value in pattern.secrets:
            return MASK
        return _mask_text(value, pattern) if pattern.may_match(value) else value
    if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in pattern.secrets:
        return MASK
    return value


def _mask_text(text: str, pattern: SecretPattern, limit: int | None = None) -> str:
    pieces: list[str] = []
    end = 0
    for start, stop in _spans(text, pattern):
        if limit is not None and start >= limit:
            break
        if start >= end:
            pieces += (text[end:start], MASK)
        end = max(end, stop)
    return "".join((*pieces, text[end:limit]))


def _spans(text: str, pattern: SecretPattern, levels: int = MAX_LEVELS) -> list[Span]:
    """Return the spans of secrets, in order; the whole text if it has too many escapes to decode."""
    if len(text) < MIN_SECRET_CHARS:
        return []
    view = TextView(text)
    spans: list[Span] = []
    for level in range(levels + 1):
        spans += (
            (view.original_position(start), view.original_position(end)) for start, end in pattern.spans(view.text)
        )
        try:
            decoded_view = decode_level(view) if level < levels else None
        except ValueError:
            return [(0, len(text))]
        if decoded_view is None:
            break
        view = decoded_view
    return sorted(spans)
