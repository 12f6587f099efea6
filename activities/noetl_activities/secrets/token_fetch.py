"""Fetches a token from an endpoint (OAuth 2 and similar), with the client of the http tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from noetl_activities.errors import ConfigError, SecretError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.secrets.fetched import FetchedSecret
from noetl_activities.tool import Credential, Json, OutputStream, Request

__all__ = ["fetch_token"]

TIMEOUT = 30.0
_EARLIER = 30.0
"""How many seconds before its expiry a token is fetched again."""

_OF_THE_REQUEST = ("method", "headers", "params", "data", "form", "json", "body", "payload")
_FORM = "application/x-www-form-urlencoded"


class _Context:
    """The context of a request without credentials."""

    attempt = 1

    def heartbeat(self) -> None:
        """Nothing to do: the calling activity heartbeats."""

    async def credential(self, auth: Json) -> Credential:
        raise ConfigError(f"a token endpoint cannot be called with auth {auth!r}")

    async def secret(self, name: str, kind: str, config: dict[str, Json]) -> str:
        raise ConfigError(f"a token endpoint needs no secret {name!r} {kind!r} {len(config)}")

    def cut(self, text: str, limit: int) -> str:
        return text[:limit]

    def output(self, stream: OutputStream, text: str) -> None:
        """A request prints nothing."""


async def fetch_token(name: str, config: Mapping[str, Json]) -> FetchedSecret:
    """Return the response of the endpoint, which must be a JSON object.

    Raises ConfigError, RefusedError, SecretError.
    """
    from noetl_activities.http import TOOL  # slow to import, and most workers fetch no token

    sent: dict[str, Json] = {key: config[key] for key in _OF_THE_REQUEST if config.get(key) is not None}
    headers = cast("dict[str, Json]", sent.get("headers") or {})
    if "content-type" not in {key.lower() for key in headers} and "json" not in sent:
        headers = {**headers, "Content-Type": _FORM}
    call = {"method": "POST", **sent, "headers": headers, "url": config.get("endpoint") or config.get("url")}
    request = Request(kind="http", config=call, timeout=TIMEOUT)
    outcome = await TOOL.run(request, _Context())
    if outcome.error is not None:
        error = outcome.error
        info = msgspec.structs.replace(error, message=f"the token {name!r} cannot be fetched: {error.message}")
        raise SecretError(Outcome("error", error=info))
    answer: Any = outcome.result["data"]
    if not isinstance(answer, dict):
        message = f"the token {name!r} cannot be fetched: the response is not a JSON object"
        raise SecretError(Outcome("error", error=ErrorInfo("credential", message)))
    fields = cast("dict[str, Any]", answer)
    return FetchedSecret(fields, _seconds(fields.get("expires_in")))


def _seconds(expires_in: Any) -> float:
    """Return how long to cache a token; 0 if its lifetime is unknown."""
    try:
        return float(expires_in) - _EARLIER
    except (TypeError, ValueError):
        return 0.0
