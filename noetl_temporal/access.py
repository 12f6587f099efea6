"""Warns about workers that run code for anyone who can connect to their Temporal server."""

from __future__ import annotations

from ipaddress import ip_address

from temporalio.client import Client
from temporalio.service import TLSConfig

from noetl_temporal.environment import SIGNING_KEY_VARIABLE
from noetl_temporal.payloads.codec import is_signed

__all__ = ["open_access_warning"]


def open_access_warning(client: Client) -> str | None:
    """Return the warning if the client's Temporal server is on another machine and has no login, and payloads are not
    signed; None otherwise.
    """
    config = client.service_client.config
    has_certificate = isinstance(config.tls, TLSConfig) and config.tls.client_cert is not None
    if has_certificate or config.api_key or is_signed(client.data_converter) or _is_loopback(config.target_host):
        return None
    return (
        f"anyone who can connect to Temporal at {config.target_host} can run code on this worker: use TLS with client "
        "certificates or API keys (TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_API_KEY), or let "
        f"{SIGNING_KEY_VARIABLE} name the same key for all workers and clients (`openssl rand -hex 32`), in a file "
        "that only their account can read"
    )


def _is_loopback(address: str) -> bool:
    """Whether HOST:PORT is on this machine."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
