"""What can be wrong with a deployment, told to the person who set it up: what was tried, why it failed, what to do.

Temporal's client raises RuntimeError with the words of its Rust core, asyncpg a dozen classes. The two functions here
map them by table; what is not in the table keeps its own words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import asyncpg
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

__all__ = [
    "DeploymentError",
    "check_namespace",
    "check_postgres",
    "postgres_problem",
    "rpc_problem",
    "temporal_problem",
]

CONNECT_SECONDS = 10.0

_CONNECT_REASONS = {
    "Connection refused": "connection refused: nothing listens there",
    "dns error": "the host name is unknown",
    "InvalidContentType": "the server does not speak TLS: set TEMPORAL_TLS=false (an API key switches TLS on)",
    "certificate": "its TLS certificate was not accepted: set TEMPORAL_TLS_SERVER_CA_CERT_PATH and, where the name "
    "differs, TEMPORAL_TLS_SERVER_NAME",
    "Unauthenticated": "the API key was not accepted: check TEMPORAL_API_KEY",
    "PermissionDenied": "access was refused: check TEMPORAL_API_KEY or the client certificate",
    "error after connection": "what listens there is not Temporal's gRPC port, or it expects TLS (TEMPORAL_TLS=true)",
}
"""Words of the client's errors, and what they mean."""

_UNAUTHORISED = "check TEMPORAL_API_KEY, or the certificate of TEMPORAL_TLS_CLIENT_CERT_PATH, and the rights they give"


class DeploymentError(Exception):
    """Temporal or Postgres cannot be used as the environment names them. The message says what to do."""


def temporal_problem(error: Exception, settings: Mapping[str, Any]) -> DeploymentError:
    """Why no connection was made. ``settings`` are the arguments of Client.connect."""
    where = f"cannot connect to Temporal at {settings.get('target_host')}"
    if isinstance(error, TimeoutError):
        return DeploymentError(f"{where}: no answer within {CONNECT_SECONDS:g} s. {_ADVICE}")
    found = (reason for words, reason in _CONNECT_REASONS.items() if words in str(error))
    return DeploymentError(f"{where}: {next(found, str(error).strip())}. {_ADVICE}")


_ADVICE = "Check TEMPORAL_ADDRESS, or unset it to use the stack of this folder (noetl dev up)"


def rpc_problem(error: RPCError, namespace: str) -> DeploymentError | None:
    """What an answer of Temporal says about the deployment; None when it says nothing about it."""
    match error.status:
        case RPCStatusCode.NOT_FOUND if "amespace" in error.message:
            told = f"Temporal has no namespace {namespace!r}: create it, or name another with TEMPORAL_NAMESPACE"
        case RPCStatusCode.INVALID_ARGUMENT if _is_about_search_attributes(error.message):
            told = f"namespace {namespace!r} lacks our search attributes ({error.message}): run `noetl setup`"
        case RPCStatusCode.UNAUTHENTICATED:
            told = f"Temporal did not accept who we are ({error.message}): {_UNAUTHORISED}"
        case RPCStatusCode.PERMISSION_DENIED:
            told = f"Temporal refused access to namespace {namespace!r} ({error.message}): {_UNAUTHORISED}"
        case RPCStatusCode.UNAVAILABLE | RPCStatusCode.DEADLINE_EXCEEDED:
            told = f"Temporal cannot be reached any more ({error.message}): {_ADVICE[0].lower()}{_ADVICE[1:]}"
        case _:
            return None
    return DeploymentError(told)


def _is_about_search_attributes(message: str) -> bool:
    return "search attribute" in message.lower() or "Noetl" in message


async def check_namespace(client: Client) -> None:
    """Ask for the client's namespace. Raises DeploymentError when there is none, or we may not enter.

    Who may run workflows in a namespace need not be allowed to describe it: what that means, the first use tells."""
    request = DescribeNamespaceRequest(namespace=client.namespace)
    try:
        await client.workflow_service.describe_namespace(request, timeout=timedelta(seconds=CONNECT_SECONDS))
    except RPCError as error:
        if error.status is not RPCStatusCode.PERMISSION_DENIED:
            raise rpc_problem(error, client.namespace) or error from error


async def check_postgres(dsn: str) -> None:
    """Connect once. Raises DeploymentError."""
    try:
        connection = await asyncpg.connect(dsn, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise postgres_problem(error, dsn) from error
    await connection.close()


def postgres_problem(error: Exception, dsn: str) -> DeploymentError:
    """Why Postgres cannot be used; the password of the DSN is not told."""
    match error:
        case asyncpg.UndefinedTableError() | asyncpg.InvalidSchemaNameError() | asyncpg.UndefinedColumnError():
            return DeploymentError(f"{_place(dsn)} has no event log of this version ({error}): run `noetl setup`")
        case TimeoutError() | asyncio.TimeoutError():
            why = f"no answer within {CONNECT_SECONDS:g} s"
        case ConnectionRefusedError():
            why = "connection refused: nothing listens there"
        case asyncpg.InvalidAuthorizationSpecificationError():
            why = f"the login was refused ({error})"
        case _:
            why = str(error) or type(error).__name__
    return DeploymentError(
        f"cannot use {_place(dsn)}: {why}. Check NOETL_POSTGRES: postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
    )


def _place(dsn: str) -> str:
    try:
        parts = urlsplit(dsn)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "Postgres"
    return f"Postgres at {parts.hostname}{port}{parts.path}" if parts.hostname else "Postgres"
