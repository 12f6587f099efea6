"""The keys of an ``auth`` that names a credential, and the error of one that also sets its server."""

from __future__ import annotations

__all__ = ["AUTH_AND_ENDPOINT", "KEYS_BESIDE_NAME", "NAME_KEYS"]

NAME_KEYS = ("credential", "key", "name")
"""Keys under which ``auth`` names a credential; the first one whose value is a string is used."""

KEYS_BESIDE_NAME = frozenset(
    {"type", "source", "inject", "header", "header_name", "oauth_credential", "provider", "schema", "scope"}
)
"""Keys allowed beside the name. They say how the credential is used, and change neither its server nor its account."""

AUTH_AND_ENDPOINT = (
    "has auth and an endpoint: a playbook cannot change the server of a credential",
    "write the endpoint in the credential",
)
"""The message, without its subject, and the hint for an object that has both."""
