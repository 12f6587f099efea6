"""Removes secret values from JSON: wherever they stand in a text, also URL-encoded or in base64."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection
from typing import Any, cast
from urllib.parse import quote, quote_plus

__all__ = ["MASK", "scrub"]

MASK = "***"
_SHORTEST = 3
"""Shorter values would mask ordinary text everywhere; they are removed only where they are the whole text."""


def scrub(value: Any, secrets: Collection[str]) -> Any:
    """A copy of the JSON value with every secret replaced by ``***``, in keys too."""
    if not secrets:
        return value
    forms = sorted({form for secret in secrets for form in _forms(secret)}, key=lambda form: (-len(form), form))
    pattern = re.compile("|".join(map(re.escape, forms))) if forms else None
    return _scrub(value, pattern, frozenset(secrets))


def _forms(secret: str) -> set[str]:
    if len(secret) < _SHORTEST:
        return set()
    raw = secret.encode()
    encoded = {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}
    return {secret, quote(secret, safe=""), quote(secret), quote_plus(secret), json.dumps(secret)[1:-1], *encoded}


def _scrub(value: Any, pattern: re.Pattern[str] | None, whole: frozenset[str]) -> Any:
    if isinstance(value, str):
        if value in whole:
            return MASK
        return pattern.sub(MASK, value) if pattern else value
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {_scrub(key, pattern, whole): _scrub(item, pattern, whole) for key, item in items}
    if isinstance(value, list | tuple):
        return [_scrub(item, pattern, whole) for item in cast("list[Any]", value)]
    if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in whole:
        return MASK
    return value
