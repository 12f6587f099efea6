"""Masks the password of a URL, and the query parameters whose names are those of secrets, before playbooks see it."""

from __future__ import annotations

import re

import httpx

from noetl_activities.scrub import MASK
from noetl_compiler.checks.secret_patterns import is_secret_key

__all__ = ["masked_url"]

_QUERY_PARAMETER = re.compile(r"(?<=[?&])([^=&#]+)=([^&#]+)")
_PAGE_TOKEN = re.compile(r"(page|next|continuation)[_-]?token", re.IGNORECASE)
"""Tokens that are not secret: playbooks use them to request the next page."""


def masked_url(url: httpx.URL) -> str:
    """Return the masked address. Secrets in other parameters are masked with the credentials of the call (scrub.py)."""

    masked_copy = url.copy_with(username=url.username, password=MASK) if url.password else url
    return _QUERY_PARAMETER.sub(_mask_parameter, str(masked_copy))


def _mask_parameter(parameter: re.Match[str]) -> str:
    name = parameter[1]
    return f"{name}={MASK}" if is_secret_key(name) and not _PAGE_TOKEN.fullmatch(name) else parameter[0]
