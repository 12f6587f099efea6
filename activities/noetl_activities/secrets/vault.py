"""Reads secrets of the key-value engine, version 2, of HashiCorp Vault or OpenBao.

The address and the login come only from the worker's environment. A playbook names a path, and the policy of the
worker's token decides which paths playbooks may read. The variables differ from those of Vault's command line, because
a login for other purposes must not be available to playbooks.
"""

from __future__ import annotations

import ipaddress
import json
import re
import ssl
from collections.abc import Mapping
from typing import Any, cast

import httpx

from noetl_activities.errors import ConfigError, CredentialError, SecretError
from noetl_activities.http.exchange import exchange
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.secrets.secret_cache import FetchedSecret, SecretCache

__all__ = ["Vault"]

CACHE_SECONDS = 30.0
"""How long a secret is cached. It is short, so that changes take effect soon."""

TIMEOUT_SECONDS = 10.0
_RENEW_AFTER = 0.9
"""A login is renewed after this fraction of its lifetime."""

_SECRET_PATH = re.compile(r"[\w.@~+=-]+(?:/[\w.@~+=-]+)+", re.ASCII)
_FORBIDDEN, _NOT_FOUND, _TOO_MANY, _SERVER_ERROR = 403, 404, 429, 500


class Vault:
    """The Vault at NOETL_VAULT_ADDRESS. The login is NOETL_VAULT_TOKEN, or NOETL_VAULT_ROLE_ID with
    NOETL_VAULT_SECRET_ID; all are read from ``environment``.
    """

    def __init__(self, environment: Mapping[str, str], cache: SecretCache) -> None:
        self._environment = environment
        self._cache = cache

    async def read(self, path: str) -> dict[str, Any]:
        """Return the fields of the secret at ``mount/path``, or ``mount/data/path`` if the mount has several parts.
        Raises CredentialError, ConfigError, SecretError.
        """
        mount, _, secret_path = _check_path(path).partition("/data/" if "/data/" in path else "/")
        address = self._address()
        return await self._cache.get(
            f"vault {address} {mount}/{secret_path}", lambda: self._read(address, mount, secret_path)
        )

    async def _read(self, address: str, mount: str, secret_path: str) -> FetchedSecret:
        token = await self._token(address)
        response = await self._send(address, "GET", f"{mount}/data/{secret_path}", {"X-Vault-Token": token})
        fields = _as_mapping(_as_mapping(response.get("data")).get("data"))
        if not fields:
            raise CredentialError(
                f"there is no secret {mount}/{secret_path} in Vault: it is empty, or its version is deleted"
            )
        return FetchedSecret(fields, CACHE_SECONDS)

    async def _token(self, address: str) -> str:
        environment = self._environment
        if environment.get("NOETL_VAULT_TOKEN"):
            return environment["NOETL_VAULT_TOKEN"]
        role, secret = environment.get("NOETL_VAULT_ROLE_ID"), environment.get("NOETL_VAULT_SECRET_ID")
        if not role or not secret:
            raise CredentialError(
                "the worker has no login for Vault: set NOETL_VAULT_TOKEN, or NOETL_VAULT_ROLE_ID and "
                "NOETL_VAULT_SECRET_ID"
            )
        token = await self._cache.get(f"vault login {address}", lambda: self._log_in(address, role, secret))
        return str(token["client_token"])

    async def _log_in(self, address: str, role: str, secret: str) -> FetchedSecret:
        body = {"role_id": role, "secret_id": secret}
        login = _as_mapping((await self._send(address, "POST", "auth/approle/login", {}, body)).get("auth"))
        if not isinstance(login.get("client_token"), str):
            raise CredentialError(
                "Vault accepted the login but returned no token: check NOETL_VAULT_ROLE_ID and NOETL_VAULT_SECRET_ID"
            )
        seconds = login.get("lease_duration")
        return FetchedSecret(login, seconds * _RENEW_AFTER if isinstance(seconds, int | float) else 0.0)

    async def _send(
        self, address: str, method: str, path: str, headers: Mapping[str, str], body: dict[str, str] | None = None
    ) -> dict[str, Any]:
        namespace = self._environment.get("NOETL_VAULT_NAMESPACE")
        all_headers = {**headers, **({"X-Vault-Namespace": namespace} if namespace else {})}
        async with httpx.AsyncClient(verify=self._tls(), timeout=TIMEOUT_SECONDS, trust_env=False) as client:
            request = client.build_request(method, f"{address}/v1/{path}", headers=all_headers, json=body)
            try:
                response, response_body = await exchange(client, request, follow_redirects=False)
            except httpx.HTTPError as error:
                message = f"Vault at {address} does not respond: {str(error) or type(error).__name__}"
                raise SecretError(Outcome("error", error=ErrorInfo("connection", message))) from None
        if not response.is_success:
            raise _status_error(response.status_code, method, path)
        return _parse_json(response_body)

    def _address(self) -> str:
        """Return the address. Raises CredentialError if there is none, or if the connection would not be private."""
        text = self._environment.get("NOETL_VAULT_ADDRESS", "").rstrip("/")
        if not text:
            raise CredentialError("the worker has no Vault: set NOETL_VAULT_ADDRESS and a login in its environment")
        try:
            url = httpx.URL(text)
        except httpx.InvalidURL:
            raise CredentialError("NOETL_VAULT_ADDRESS is not an address: write https://host:port") from None
        if url.scheme == "https" or (url.scheme == "http" and _is_loopback(url.host)):
            return text
        raise CredentialError("NOETL_VAULT_ADDRESS must begin with https://, unless Vault is on this machine")

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._environment.get("NOETL_VAULT_CA") or None)


def _check_path(path: str) -> str:
    if not _SECRET_PATH.fullmatch(path) or any(part in (".", "..") for part in path.split("/")):
        raise ConfigError(f'"{path}" is not the path of a secret: write mount/path, such as secret/billing')
    return path


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _status_error(status: int, method: str, path: str) -> CredentialError | SecretError:
    """Return the error for a status. It does not quote the response of Vault, which may repeat the request."""
    message = f"Vault answered {method} {path} with status {status}"
    if status == _NOT_FOUND:
        return CredentialError(f"{message}: there is no such secret, or the engine is not key-value of version 2")
    if status >= _SERVER_ERROR or status == _TOO_MANY:
        kind = "rate_limit" if status == _TOO_MANY else "server_error"
        return SecretError(Outcome("error", error=ErrorInfo(kind, message, status=status)))
    reason = ": the policy of the worker's token does not allow it" if status == _FORBIDDEN else ""
    return CredentialError(message + reason)


def _parse_json(text: bytearray) -> dict[str, Any]:
    try:
        return _as_mapping(json.loads(text))
    except ValueError:
        raise CredentialError("the server at NOETL_VAULT_ADDRESS is not Vault: its response is not JSON") from None


def _as_mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
