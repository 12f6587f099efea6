"""Connects to Temporal with the settings of its environment variables and configuration file."""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig

from noetl_temporal.control.paused_workflows import read_paused_as_running
from noetl_temporal.deployment import CONNECT_SECONDS, DeploymentError
from noetl_temporal.environment import dsn_from_environment
from noetl_temporal.payloads.codec import data_converter, header_behavior
from noetl_temporal.payloads.encryption_keys import keyring_from_environment
from noetl_temporal.payloads.signing import signing_key_from_environment
from noetl_temporal.temporal_errors import check_namespace, temporal_error

__all__ = ["connect_temporal", "reading_converter"]

_WITH_PORT = re.compile(r"[^:]:\d{1,5}$")


async def connect_temporal(address: str | None = None, namespace: str | None = None, dsn: str | None = None) -> Client:
    """Return a client for the given address, or else for the TEMPORAL_* variables or a temporal.toml profile.

    Large values are stored in the Postgres of ``dsn`` or NOETL_POSTGRES; without either, values over 2 MB are refused.
    Payloads are signed with the key in the file of NOETL_SIGNING_KEY_FILE, if it is set (signing.py), and encrypted
    with the first of NOETL_ENCRYPTION_KEYS, if there are any (encryption_keys.py).
    Raises DeploymentError if Temporal is unavailable, the namespace does not exist, or the settings are invalid.
    """
    read_paused_as_running()
    settings = _settings(address, namespace)
    keyring = await keyring_from_environment()
    converter = data_converter(dsn or dsn_from_environment(), signing_key_from_environment(), keyring)
    try:
        connecting = Client.connect(
            **settings, data_converter=converter, header_codec_behavior=header_behavior(converter)
        )
        client = await asyncio.wait_for(connecting, CONNECT_SECONDS)
    except (RuntimeError, OSError, ValueError) as error:
        raise temporal_error(error, settings) from error
    await check_namespace(client)
    return client


async def reading_converter(dsn: str | None = None) -> DataConverter:
    """Return a converter that decodes values of histories without a client, with large ones from the Postgres of
    ``dsn`` or NOETL_POSTGRES. It verifies no signatures. Raises DeploymentError.
    """
    return data_converter(dsn or dsn_from_environment(), keyring=await keyring_from_environment())


def _settings(address: str | None, namespace: str | None) -> dict[str, Any]:
    try:
        settings = cast("dict[str, Any]", ClientConfig.load_client_connect_config())
    except (RuntimeError, OSError, ValueError) as error:  # the SDK's ConfigError is a RuntimeError
        problem = " ".join(str(error).split())
        raise DeploymentError(f"invalid Temporal settings (TEMPORAL_*, temporal.toml): {problem}") from error
    settings.setdefault("target_host", "127.0.0.1:7233")
    if address is not None:
        settings["target_host"] = address
    if namespace is not None:
        settings["namespace"] = namespace
    target = settings["target_host"]
    if "://" in target:
        raise DeploymentError(f"Temporal's address is HOST:PORT, without a scheme: not {target}")
    if not _WITH_PORT.search(target):
        raise DeploymentError(f"Temporal's address is HOST:PORT: {target} has no port, such as {target}:7233")
    return settings
