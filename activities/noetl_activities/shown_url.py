"""The address of a response as a playbook sees it: with ``***`` for a password, and for parameters named as secrets."""

from __future__ import annotations

import re

import httpx

from noetl_activities.scrub import MASK
from noetl_compiler.checks.secret_shapes import is_secret_key

__all__ = ["shown_url"]

_PARAMETER = re.compile(r"(?<=[?&])([^=&#]+)=([^&#]+)")
_OF_PAGES = re.compile(r"(page|next|continuation)[_-]?token", re.IGNORECASE)
"""Tokens that are no secret: playbooks read pages with them."""


def shown_url(url: httpx.URL) -> str:
    """Return the address. A secret without such a name is masked where its credential is known (scrub.py)."""
    shown = url.copy_with(username=url.username, password=MASK) if url.password else url
    return _PARAMETER.sub(_masked, str(shown))


def _masked(parameter: re.Match[str]) -> str:
    name = parameter[1]
    return f"{name}={MASK}" if is_secret_key(name) and not _OF_PAGES.fullmatch(name) else parameter[0]
