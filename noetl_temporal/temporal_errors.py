"""Converts errors of Temporal's client and server to errors whose messages contain the remedy.

The client raises RuntimeError with a message of its Rust core, or the error of the server. Messages that are not listed
here are shown unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from noetl_activities.errors import CONNECTION_REFUSED
from noetl_temporal.deployment import CONNECT_SECONDS, DeploymentError

__all__ = ["check_namespace", "is_about_namespace", "rpc_error", "temporal_error"]

_CONNECT_REASONS = {
    "Connection refused": CONNECTION_REFUSED,
    "dns error": "unknown host",
    "InvalidContentType": "the server does not speak TLS: set TEMPORAL_TLS=false (an API key switches TLS on)",
    "certificate": "its TLS certificate was not accepted: set TEMPORAL_TLS_SERVER_CA_CERT_PATH and, where the name "
    "differs, TEMPORAL_TLS_SERVER_NAME",
    "Unauthenticated": "the API key was not accepted: check TEMPORAL_API_KEY",
    "PermissionDenied": "access was refused: check TEMPORAL_API_KEY or the client certificate",
    "error after connection": "the port is not Temporal's gRPC port, or it requires TLS (TEMPORAL_TLS=true)",
}
"""The reason of a failed connection, by a text in the client's error."""

_UNAUTHORISED = "check TEMPORAL_API_KEY, or the certificate of TEMPORAL_TLS_CLIENT_CERT_PATH, and the rights they give"


def temporal_error(error: Exception, settings: Mapping[str, Any]) -> DeploymentError:
    """Return the error for a failed connection. ``settings`` are the arguments of Client.connect."""
    prefix = f"cannot connect to Temporal at {settings.get('target_host')}"
    if isinstance(error, TimeoutError):
        return DeploymentError(f"{prefix}: timed out after {CONNECT_SECONDS:g} s. {_ADVICE}")
    reasons = (reason for text, reason in _CONNECT_REASONS.items() if text in str(error))
    return DeploymentError(f"{prefix}: {next(reasons, str(error).strip())}. {_ADVICE}")


_ADVICE = (
    "Check TEMPORAL_ADDRESS. Without it `noetl` uses the stack of this folder (noetl dev up); `noetl dev status` shows "
    "that stack's address, which the Python client needs"
)


def rpc_error(error: RPCError, namespace: str) -> DeploymentError | None:
    """Return the error for a problem of the deployment that caused an error of Temporal; None for any other error."""
    match error.status:
        case RPCStatusCode.NOT_FOUND if is_about_namespace(error):
            message = f"Temporal has no namespace {namespace!r}: create it, or name another with TEMPORAL_NAMESPACE"
        case RPCStatusCode.INVALID_ARGUMENT if _is_about_search_attributes(error.message):
            message = (
                f"namespace {namespace!r} lacks the search attributes of NoETL ({error.message}): run `noetl setup`"
            )
        case RPCStatusCode.UNAUTHENTICATED:
            message = f"Temporal rejected the credentials ({error.message}): {_UNAUTHORISED}"
        case RPCStatusCode.PERMISSION_DENIED:
            message = f"Temporal refused access to namespace {namespace!r} ({error.message}): {_UNAUTHORISED}"
        case RPCStatusCode.UNAVAILABLE | RPCStatusCode.DEADLINE_EXCEEDED:
            message = f"the connection to Temporal was lost ({error.message}): {_ADVICE[0].lower()}{_ADVICE[1:]}"
        case _:
            return None
    return DeploymentError(message)


def is_about_namespace(error: RPCError) -> bool:
    """Whether the server did not find the namespace, and not something in it."""
    return "namespace" in error.message.lower()


def _is_about_search_attributes(message: str) -> bool:
    return "search attribute" in message.lower() or "Noetl" in message


async def check_namespace(client: Client) -> None:
    """Check that the client's namespace exists. Raises DeploymentError, also if the credentials are rejected.

    An account that may run workflows may not be allowed to describe the namespace. Then nothing is checked: if it does
    not exist, the first request fails.
    """
    request = DescribeNamespaceRequest(namespace=client.namespace)
    try:
        await client.workflow_service.describe_namespace(request, timeout=timedelta(seconds=CONNECT_SECONDS))
    except RPCError as error:
        if error.status is not RPCStatusCode.PERMISSION_DENIED:
            raise rpc_error(error, client.namespace) or error from error
