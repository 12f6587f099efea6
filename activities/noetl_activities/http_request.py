"""Build the request of an http task: query, body and authentication."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

import httpx

from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.tool import Credential, Json, Request

__all__ = ["build", "credential_headers", "key_digest", "key_headers", "where"]

_IN_QUERY = frozenset({"GET", "DELETE", "HEAD", "OPTIONS"})
_BODIES = ("payload", "body", "json", "form")
_KEY_DIGITS = 32
"""Hexadecimal digits of an idempotency key: as many as a UUID has."""


def where(config: dict[str, Json]) -> str:
    """``GET https://...`` without its query, for messages."""
    url = str(config.get("url") or config.get("endpoint"))
    return f"{_method(config)} {url.strip().partition('?')[0]}"


def _method(config: dict[str, Json]) -> str:
    return str(config.get("method") or "GET").upper()


def key_headers(request: Request) -> dict[str, str]:
    """Return the idempotency header, the same for all attempts of a call; empty unless the task names a header."""
    return {} if request.idempotency_key is None else {request.idempotency_key: key_digest(request.key, request.n)}


def key_digest(key: str, n: int) -> str:
    """Return the key that servers receive for a call: a digest, so that it is short and alphanumeric."""
    return hashlib.sha256(f"{key}#{n}".encode()).hexdigest()[:_KEY_DIGITS]


def build(
    client: httpx.AsyncClient, config: dict[str, Json], credential: Credential, more_headers: Mapping[str, str]
) -> httpx.Request:
    """Build the request of a task; ``more_headers`` override its own. Raises ConfigError, CredentialError."""
    url = config.get("url") or config.get("endpoint")
    if not isinstance(url, str) or not url.strip():
        raise ConfigError("an http task needs a url")
    query, body = _route_data(config)
    try:
        headers = httpx.Headers({str(name): _text(value) for name, value in _map(config, "headers").items()})
        headers.update(credential_headers(credential))
        headers.update(more_headers)
        target = httpx.URL(url.strip()).copy_merge_params(_params(query))
        if not target.is_absolute_url:
            public_url = url.strip().partition("?")[0]
            raise ConfigError(f'"{public_url}" is not an http(s) address: begin it with http:// or https://')
        return client.build_request(_method(config), target, headers=headers, **_body(config, body, headers))
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, TypeError, ValueError) as error:
        raise ConfigError(f"{where(config)}: {error}") from error


def _map(config: dict[str, Json], name: str) -> dict[str, Json]:
    value = config.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{name} is {value!r}: expected a map")
    return cast("dict[str, Json]", value)


def _route_data(config: dict[str, Json]) -> tuple[dict[str, Json], Json]:
    """Return (query, body). ``data`` is split into its parts ``query`` and ``body``, or placed by method."""
    query = {**_map(config, "params"), **_map(config, "query")}
    body = next((config[name] for name in _BODIES if config.get(name) is not None), None)
    data: Json = config.get("data")
    if data is None:
        return query, body
    if isinstance(data, dict) and set(cast("dict[str, Json]", data)) <= {"query", "body"}:
        parts = cast("dict[str, dict[str, Json]]", data)
        return {**query, **(parts.get("query") or {})}, parts.get("body", body)
    if _method(config) in _IN_QUERY and isinstance(data, dict):
        return {**query, **cast("dict[str, Json]", data)}, body
    return query, cast("Json", data)


def _params(query: dict[str, Json]) -> dict[str, Any]:
    return {
        name: [_text(element) for element in cast("list[Json]", value)] if isinstance(value, list) else _text(value)
        for name, value in query.items()
        if value is not None
    }


def _text(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def _body(config: dict[str, Json], body: Json, headers: httpx.Headers) -> dict[str, Any]:
    """Encode the body as JSON, unless the field or the Content-Type declares form or multipart, or it is text."""
    if body is None:
        return {}
    if not isinstance(body, dict):
        return {"content": body.encode()} if isinstance(body, str) else {"json": body}
    fields = {str(name): value for name, value in cast("dict[str, Json]", body).items()}
    content_type = headers.get("content-type", "").lower()
    if "multipart/form-data" in content_type:
        if "boundary=" not in content_type:
            del headers["content-type"]  # httpx sets it with the boundary
        return {"files": {name: (None, _text(value)) for name, value in fields.items()}}
    if "x-www-form-urlencoded" in content_type or (config.get("form") is body and not content_type):
        return {"data": _params(fields)}
    return {"json": fields}


def credential_headers(credential: Credential) -> dict[str, str]:
    """Headers of a credential: bearer, basic or api_key."""
    if not credential:
        return {}
    kind = str(credential.get("type") or "bearer").lower()
    if kind == "basic":
        pair = f"{credential.get('username', credential.get('user', ''))}:{credential.get('password', '')}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    if kind in ("api_key", "apikey"):
        name = str(credential.get("header_name") or credential.get("header") or "X-API-Key")
        return {name: _secret(credential, "api_key", "key", "value", "token")}
    return {"Authorization": f"Bearer {_secret(credential, 'token', 'access_token', 'api_key', 'value')}"}


def _secret(credential: Credential, *names: str) -> str:
    secret = next((credential[name] for name in names if credential.get(name)), None)
    if secret is None:
        raise CredentialError(f"a credential of type {credential.get('type')!r} needs {' or '.join(names)}")
    return str(secret)
