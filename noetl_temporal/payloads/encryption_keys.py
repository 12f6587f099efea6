"""Reads the encryption keys of this process, from its environment or from Vault."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping

from noetl_activities.errors import ConfigError, CredentialError, SecretError
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.payloads.encryption import ENCRYPTION_KEYS_VARIABLE, KEY_BYTES, Keyring

__all__ = ["ENCRYPTION_VAULT_VARIABLE", "VAULT_FIELD", "keyring_from_environment", "parse_keys"]

ENCRYPTION_VAULT_VARIABLE = "NOETL_ENCRYPTION_VAULT"
"""The path of a secret in Vault that has the keys."""

VAULT_FIELD = "keys"
"""The field of the secret in Vault."""

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


async def keyring_from_environment() -> Keyring | None:
    """Return the keys in NOETL_ENCRYPTION_KEYS, or in the secret that NOETL_ENCRYPTION_VAULT names; None if neither is
    set.

    Raises DeploymentError.
    """
    text, path = os.environ.get(ENCRYPTION_KEYS_VARIABLE), os.environ.get(ENCRYPTION_VAULT_VARIABLE)
    if text and path:
        raise DeploymentError(f"set {ENCRYPTION_KEYS_VARIABLE} or {ENCRYPTION_VAULT_VARIABLE}, not both")
    if text:
        return Keyring(parse_keys(text, ENCRYPTION_KEYS_VARIABLE))
    return Keyring(await _keys_in_vault(path)) if path else None


async def _keys_in_vault(path: str) -> Mapping[str, bytes]:
    from noetl_activities.secrets.secret_cache import SecretCache  # with an HTTP client, for those who use Vault
    from noetl_activities.secrets.vault import Vault

    source = f"{ENCRYPTION_VAULT_VARIABLE} ({path})"
    try:
        fields = await Vault(os.environ, SecretCache()).read(path)
    except (ConfigError, CredentialError, SecretError) as error:
        raise DeploymentError(f"cannot read {source}: {error}") from None
    text = fields.get(VAULT_FIELD)
    if not isinstance(text, str):
        raise DeploymentError(f"the secret of {source} has no field {VAULT_FIELD!r} with a string like id:base64,...")
    return parse_keys(text, f"the field {VAULT_FIELD!r} of {source}")


def parse_keys(text: str, source: str) -> dict[str, bytes]:
    """Return the keys in ``id:base64,...``, in their order. Raises DeploymentError, which names no part of a key."""
    keys: dict[str, bytes] = {}
    for number, part in enumerate(text.split(","), 1):
        key_id, colon, encoded = part.strip().partition(":")
        if not colon or not _ID.fullmatch(key_id):
            raise DeploymentError(
                f"key {number} in {source} is not id:base64: an id has 1 to 64 letters, digits, '.', '_' and '-'"
            )
        if key_id in keys:
            raise DeploymentError(f"{source} has two keys with the id {key_id!r}")
        keys[key_id] = _key(encoded, f"the key {key_id!r} in {source}")
    return keys


def _key(encoded: str, name: str) -> bytes:
    try:
        key = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise DeploymentError(f"{name} is not base64 of {KEY_BYTES} bytes: make one with `openssl rand -base64 32`")
    return key
