"""Build the request of an http task: query, body and authentication."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

import httpx

from noetl_activities.credential_fields import first_field
from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.tool import Credential, Json, Request

__all__ = ["build_request", "credential_headers", "idempotency_headers", "idempotency_key", "request_summary"]

_QUERY_METHODS = frozenset({"GET", "DELETE", "HEAD", "OPTIONS"})
_BODY_FIELDS = ("payload", "body", "json", "form")
_KEY_DIGITS = 32
"""Hexadecimal digits of an idempotency key: as many as a UUID has."""


def request_summary(config: dict[str, Json]) -> str:
    """Return ``GET https://...`` without the query, for messages."""
    url = str(config.get("url") or config.get("endpoint"))
    return f"{_method(config)} {url.strip().partition('?')[0]}"


def _method(config: dict[str, Json]) -> str:
    return str(config.get("method") or "GET").upper()


def idempotency_headers(request: Request) -> dict[str, str]:
    """Return the header with the idempotency key, the same for all attempts of a call; empty if the task names none."""
    if request.idempotency_header is None:
        return {}
    return {request.idempotency_header: idempotency_key(request.key, request.repetition)}


def idempotency_key(key: str, repetition: int) -> str:
    """Return the idempotency key of a call for servers: a digest, so that it is short and alphanumeric."""
    return hashlib.sha256(f"{key}#{repetition}".encode()).hexdigest()[:_KEY_DIGITS]


def build_request(
    client: httpx.AsyncClient, config: dict[str, Json], credential: Credential, extra_headers: Mapping[str, str]
) -> httpx.Request:
    """Build the request of a task; ``extra_headers`` override its headers. Raises ConfigError, CredentialError."""
    url = config.get("url") or config.get("endpoint")
    if not isinstance(url, str) or not url.strip():
        raise ConfigError("an http task needs a url")
    query, body = _query_and_body(config)
    try:
        headers = httpx.Headers(
            {str(name): _param_text(value) for name, value in _mapping_field(config, "headers").items()}
        )
        headers.update(credential_headers(credential))
        headers.update(extra_headers)
        target = httpx.URL(url.strip()).copy_merge_params(_query_params(query))
        if not target.is_absolute_url:
            public_url = url.strip().partition("?")[0]
            raise ConfigError(f'"{public_url}" is not an http(s) address: begin it with http:// or https://')
        return client.build_request(_method(config), target, headers=headers, **_body_arguments(config, body, headers))
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, TypeError, ValueError) as error:
        raise ConfigError(f"{request_summary(config)}: {error}") from error


def _mapping_field(config: dict[str, Json], name: str) -> dict[str, Json]:
    value = config.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{name} is {value!r}: expected a mapping")
    return cast("dict[str, Json]", value)


def _query_and_body(config: dict[str, Json]) -> tuple[dict[str, Json], Json]:
    """Return (query, body). ``data`` may have the parts ``query`` and ``body``; otherwise the method decides which of
    the two it is.
    """
    query = {**_mapping_field(config, "params"), **_mapping_field(config, "query")}
    body = next((config[name] for name in _BODY_FIELDS if config.get(name) is not None), None)
    data: Json = config.get("data")
    if data is None:
        return query, body
    if isinstance(data, dict) and set(cast("dict[str, Json]", data)) <= {"query", "body"}:
        parts = cast("dict[str, dict[str, Json]]", data)
        return {**query, **(parts.get("query") or {})}, parts.get("body", body)
    if _method(config) in _QUERY_METHODS and isinstance(data, dict):
        return {**query, **cast("dict[str, Json]", data)}, body
    return query, cast("Json", data)


def _query_params(query: dict[str, Json]) -> dict[str, Any]:
    return {
        name: [_param_text(element) for element in cast("list[Json]", value)]
        if isinstance(value, list)
        else _param_text(value)
        for name, value in query.items()
        if value is not None
    }


def _param_text(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def _body_arguments(config: dict[str, Json], body: Json, headers: httpx.Headers) -> dict[str, Any]:
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
        return {"files": {name: (None, _param_text(value)) for name, value in fields.items()}}
    if "x-www-form-urlencoded" in content_type or (config.get("form") is body and not content_type):
        return {"data": _query_params(fields)}
    return {"json": fields}


def credential_headers(credential: Credential) -> dict[str, str]:
    """Return the headers for a credential: bearer, basic or api_key."""
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
    secret = first_field(credential, names)
    if secret is None:
        raise CredentialError(f"a credential of type {credential.get('type')!r} needs {' or '.join(names)}")
    return secret
