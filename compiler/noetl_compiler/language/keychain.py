"""Where the secrets of a keychain come from: the kinds of its entries, and the providers that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

__all__ = ["CREDENTIAL_FIELDS", "SECRETS_ENTRY", "SECRETS_TOOL", "Origin", "origin_of"]

Origin: TypeAlias = Literal["credential", "vault", "token", "playbook", "elsewhere"]
"""A credential of the worker, Vault (or OpenBao), the response of a token endpoint, the playbook itself, or a secret
manager that workers cannot read.
"""

CREDENTIAL_FIELDS = ("credential", "credential_ref", "key", "ref")
"""Fields that name the credential of an entry; by default it has the name of the entry."""

SECRETS_TOOL = "secrets"
"""The kind of tool that yields a reference to a secret."""

SECRETS_ENTRY = "secret_manager"
"""The kind of keychain entry that corresponds to a call of this tool."""

_MANAGERS = frozenset({"secret_manager", "secrets", "secret"})
"""Kinds of entries whose origin depends on their provider."""

_PROVIDERS: Mapping[str, Origin] = {
    **dict.fromkeys(("env", "environment", "file", "credentials", "credential"), "credential"),
    **dict.fromkeys(("vault", "hashicorp", "hashicorp_vault", "openbao", "bao"), "vault"),
}
_KINDS: Mapping[str, Origin] = {
    **_PROVIDERS,
    **dict.fromkeys(("credential_ref", "postgres_credential"), "credential"),
    "static": "playbook",
}
_TOKENS = frozenset({"oauth2", "bearer", "http"})
"""Kinds that fetch a token if they name an endpoint. Otherwise they name a credential, or contain the secret."""


def origin_of(kind: str, config: Mapping[str, Any]) -> Origin:
    """Return where an entry of this kind comes from, or what the tool ``secrets`` reads from this provider."""
    word = kind.lower()
    if word in _MANAGERS:
        return _PROVIDERS.get(str(config.get("provider") or "").lower(), "elsewhere")
    if word in _TOKENS:
        if config.get("endpoint") or config.get("url"):
            return "token"
        return "credential" if config.get("credential") else "playbook"
    return _KINDS.get(word, "elsewhere")
