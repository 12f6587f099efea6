"""Reads secrets of the key-value engine, version 2, of HashiCorp Vault or OpenBao.

The address and the login come only from the worker's environment: a playbook names a path, and the policy of the
worker's token defines which paths playbooks may read. The variables differ from those of Vault's command, because a
login for other purposes must not be available to playbooks.
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
from noetl_activities.http_exchange import exchange
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.secrets.fetched import FetchedSecret, FetchedSecrets

__all__ = ["Vault"]

SECONDS = 30.0
"""A secret is read again after this time, so that changes soon take effect."""

TIMEOUT = 10.0
_EARLIER = 0.9
"""A login is renewed after this fraction of its lifetime."""

_PATH = re.compile(r"[\w.@~+=-]+(?:/[\w.@~+=-]+)+", re.ASCII)
_FORBIDDEN, _NOT_FOUND, _TOO_MANY, _SERVER_ERROR = 403, 404, 429, 500


class Vault:
    """The Vault at NOETL_VAULT_ADDRESS in ``environment``. The login is NOETL_VAULT_TOKEN, or NOETL_VAULT_ROLE_ID with
    NOETL_VAULT_SECRET_ID.
    """

    def __init__(self, environment: Mapping[str, str], kept: FetchedSecrets) -> None:
        self._environment = environment
        self._kept = kept

    async def read(self, path: str) -> dict[str, Any]:
        """Return the fields of the secret at ``mount/path``; a mount with several parts must be followed by ``/data``.
        Raises CredentialError, ConfigError, SecretError.
        """
        mount, _, rest = _checked(path).partition("/data/" if "/data/" in path else "/")
        address = self._address()
        return await self._kept.get(f"vault {address} {mount}/{rest}", lambda: self._read(address, mount, rest))

    async def _read(self, address: str, mount: str, rest: str) -> FetchedSecret:
        token = await self._token(address)
        answer = await self._ask(address, "GET", f"{mount}/data/{rest}", {"X-Vault-Token": token})
        fields = _map(_map(answer.get("data")).get("data"))
        if not fields:
            raise CredentialError(f"there is no secret {mount}/{rest} in Vault: it is empty, or its version is deleted")
        return FetchedSecret(fields, SECONDS)

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
        token = await self._kept.get(f"vault login {address}", lambda: self._log_in(address, role, secret))
        return str(token["client_token"])

    async def _log_in(self, address: str, role: str, secret: str) -> FetchedSecret:
        body = {"role_id": role, "secret_id": secret}
        login = _map((await self._ask(address, "POST", "auth/approle/login", {}, body)).get("auth"))
        if not isinstance(login.get("client_token"), str):
            raise CredentialError(
                "Vault accepted the login but returned no token: check NOETL_VAULT_ROLE_ID and NOETL_VAULT_SECRET_ID"
            )
        seconds = login.get("lease_duration")
        return FetchedSecret(login, seconds * _EARLIER if isinstance(seconds, int | float) else 0.0)

    async def _ask(
        self, address: str, method: str, path: str, headers: Mapping[str, str], body: dict[str, str] | None = None
    ) -> dict[str, Any]:
        namespace = self._environment.get("NOETL_VAULT_NAMESPACE")
        sent = {**headers, **({"X-Vault-Namespace": namespace} if namespace else {})}
        async with httpx.AsyncClient(verify=self._tls(), timeout=TIMEOUT, trust_env=False) as client:
            request = client.build_request(method, f"{address}/v1/{path}", headers=sent, json=body)
            try:
                response, text = await exchange(client, request, follow_redirects=False)
            except httpx.HTTPError as error:
                message = f"Vault at {address} does not respond: {str(error) or type(error).__name__}"
                raise SecretError(Outcome("error", error=ErrorInfo("connection", message))) from None
        if not response.is_success:
            raise _refused(response.status_code, method, path)
        return _read_json(text)

    def _address(self) -> str:
        """Vault's address. Raises CredentialError if there is none, or if the connection would not be private."""
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


def _checked(path: str) -> str:
    if not _PATH.fullmatch(path) or any(part in (".", "..") for part in path.split("/")):
        raise ConfigError(f'"{path}" is not the path of a secret: write mount/path, such as secret/billing')
    return path


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refused(status: int, method: str, path: str) -> CredentialError | SecretError:
    """Return the error for a status, without the response of Vault, which may repeat what it was sent."""
    called = f"Vault answered {method} {path} with status {status}"
    if status == _NOT_FOUND:
        return CredentialError(f"{called}: there is no such secret, or the engine is not key-value of version 2")
    if status >= _SERVER_ERROR or status == _TOO_MANY:
        kind = "rate_limit" if status == _TOO_MANY else "server_error"
        return SecretError(Outcome("error", error=ErrorInfo(kind, called, status=status)))
    why = ": the policy of the worker's token does not allow it" if status == _FORBIDDEN else ""
    return CredentialError(called + why)


def _read_json(text: bytearray) -> dict[str, Any]:
    try:
        return _map(json.loads(text))
    except ValueError:
        raise CredentialError("the server at NOETL_VAULT_ADDRESS is not Vault: its response is not JSON") from None


def _map(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
