"""Fetches a token from an endpoint (OAuth 2 and similar), with the client of the http tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from noetl_activities.errors import ConfigError, SecretError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.secrets.secret_cache import FetchedSecret
from noetl_activities.tool import Credential, Json, OutputStream, Request

__all__ = ["fetch_token"]

TIMEOUT_SECONDS = 30.0
_REFRESH_MARGIN = 30.0
"""Seconds before its expiry at which a token is fetched again."""

_REQUEST_FIELDS = ("method", "headers", "params", "data", "form", "json", "body", "payload")
_FORM = "application/x-www-form-urlencoded"


class _RequestContext:
    """The context of a request without credentials."""

    attempt = 1

    def heartbeat(self) -> None:
        """Nothing to do: the calling activity heartbeats."""

    async def credential(self, auth: Json) -> Credential:
        raise ConfigError(f"a token endpoint cannot be called with auth {auth!r}")

    async def secret(self, name: str, entry_kind: str, config: dict[str, Json]) -> str:
        del entry_kind, config
        raise ConfigError(f"a token endpoint cannot be called with the secret {name!r}")

    def truncate(self, text: str, limit: int) -> str:
        return text[:limit]

    def output(self, stream: OutputStream, text: str) -> None:
        """Nothing to do: a request prints nothing."""


async def fetch_token(name: str, config: Mapping[str, Json]) -> FetchedSecret:
    """Call the endpoint and return its response, which must be a JSON object.

    Raises ConfigError, RefusedError, SecretError.
    """
    from noetl_activities.http.tool import TOOL  # slow to import, and most workers fetch no token

    fields_sent: dict[str, Json] = {key: config[key] for key in _REQUEST_FIELDS if config.get(key) is not None}
    headers = cast("dict[str, Json]", fields_sent.get("headers") or {})
    if "content-type" not in {key.lower() for key in headers} and "json" not in fields_sent:
        headers = {**headers, "Content-Type": _FORM}
    call = {"method": "POST", **fields_sent, "headers": headers, "url": config.get("endpoint") or config.get("url")}
    request = Request(kind="http", config=call, timeout=TIMEOUT_SECONDS)
    outcome = await TOOL.run(request, _RequestContext())
    if outcome.error is not None:
        error = outcome.error
        info = msgspec.structs.replace(error, message=f"the token {name!r} cannot be fetched: {error.message}")
        raise SecretError(Outcome("error", error=info))
    data: Any = outcome.result["data"]
    if not isinstance(data, dict):
        message = f"the token {name!r} cannot be fetched: the response is not a JSON object"
        raise SecretError(Outcome("error", error=ErrorInfo("credential", message)))
    fields = cast("dict[str, Any]", data)
    return FetchedSecret(fields, _cache_seconds(fields.get("expires_in")))


def _cache_seconds(expires_in: Any) -> float:
    """Return how long to cache a token; 0 if its lifetime is unknown."""
    try:
        return float(expires_in) - _REFRESH_MARGIN
    except (TypeError, ValueError):
        return 0.0
