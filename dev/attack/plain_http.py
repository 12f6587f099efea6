"""An HTTP call with plain httpx, without any guard, for the controls of attacks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

from noetl_activities.outcome import ErrorInfo, Outcome

__all__ = ["plain_call"]


async def plain_call(url: str, headers: Mapping[str, str]) -> Outcome:
    """Follow redirects, unpack all of the body, and believe what the server says it is."""
    async with httpx.AsyncClient(follow_redirects=True, trust_env=False, timeout=30) as client:
        response = await client.get(url, headers=headers)
    if not response.is_success:
        wait = float(response.headers.get("retry-after", 0))
        return Outcome("error", error=ErrorInfo("http", response.reason_phrase, retry_after=wait))
    kind = response.headers.get("content-type", "")
    text = response.content.decode(kind.partition("charset=")[2] or "utf-8")
    data: Any = json.loads(text) if "json" in kind else text
    return Outcome("ok", {"data": data})
