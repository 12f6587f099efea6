"""What can be wrong with Temporal as the environment names it.

Its client raises RuntimeError with the words of its Rust core, or the answer of the server. The functions here map
both by table; what is not in it keeps its own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.deployment import CONNECT_SECONDS, DeploymentError

__all__ = ["check_namespace", "rpc_problem", "temporal_problem"]

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


def temporal_problem(error: Exception, settings: Mapping[str, Any]) -> DeploymentError:
    """Why no connection was made. ``settings`` are the arguments of Client.connect."""
    where = f"cannot connect to Temporal at {settings.get('target_host')}"
    if isinstance(error, TimeoutError):
        return DeploymentError(f"{where}: no answer within {CONNECT_SECONDS:g} s. {_ADVICE}")
    found = (reason for words, reason in _CONNECT_REASONS.items() if words in str(error))
    return DeploymentError(f"{where}: {next(found, str(error).strip())}. {_ADVICE}")


_ADVICE = (
    "Check TEMPORAL_ADDRESS. Without it `noetl` uses the stack of this folder (noetl dev up); `noetl dev status` shows "
    "that stack's address, which the Python client needs"
)


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
