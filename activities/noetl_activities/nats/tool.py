"""The nats tool: one operation on a key-value bucket, an object store or a stream of a NATS server with JetStream.

Each call opens a connection. The server and the login come from a credential: a playbook cannot name a server.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from noetl_activities.credential_fields import first_field
from noetl_activities.credentials import credential_name
from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.nats.operations import OPERATIONS
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Credential, Request, ToolContext
from noetl_activities.tool_spec import built_in

if TYPE_CHECKING:
    from nats.aio.client import Client

__all__ = ["TOOL", "NatsTool"]

CONNECT_SECONDS = 10
_CLOSE_SECONDS = 2.0
_ADDRESS_FIELDS = ("nats_url", "url", "servers")
_USER_FIELDS, _PASSWORD_FIELDS = ("nats_user", "user", "username"), ("nats_password", "password")


class NatsTool:
    """The tool nats. Its fields:

    ``operation, bucket, key, value, ttl, encoding, stream, subject, payload``, and ``auth``.
    """

    spec = built_in("nats")

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return a mapping with ``operation`` and the result of the operation."""
        name = str(request.config.get("operation") or "")
        if name not in OPERATIONS:
            raise ConfigError(f"operation is {name!r:.60}: write one of {', '.join(OPERATIONS)}")
        if find_spec("nats") is None:
            raise ConfigError(
                'the NATS client is not installed on the worker: pip install "noetl-temporal[nats]" there'
            )
        if credential_name(request.auth) is None:
            raise CredentialError("a nats task needs auth: the name of a credential of type nats")
        return await _perform(name, request, await context.credential(request.auth), context)


async def _perform(name: str, request: Request, credential: Credential, context: ToolContext) -> Outcome:
    import nats.errors

    try:
        client = await _connect(credential)
        try:
            result = await OPERATIONS[name](client.jetstream(), request)  # pyright: ignore[reportUnknownMemberType]
        finally:
            await _close(client)
    except (nats.errors.Error, OSError, TimeoutError) as error:
        return Outcome("error", error=_error_info(error, name, context))
    return Outcome("ok", {"operation": name, **result})


async def _connect(credential: Credential) -> Client:
    """Connect without automatic reconnects: if the connection is lost, the call fails, and its policy may retry it."""
    from nats.aio.client import Client

    address = first_field(credential, _ADDRESS_FIELDS)
    if not address:
        raise CredentialError("a credential of type nats needs a url: nats://HOST:PORT")
    client = Client()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await client.connect(
                address.split(","),
                user=first_field(credential, _USER_FIELDS),
                password=first_field(credential, _PASSWORD_FIELDS),
                token=first_field(credential, ("token",)),
                allow_reconnect=False,
                max_reconnect_attempts=1,  # 0 means unlimited
                reconnect_time_wait=0,
                error_cb=_ignore_error,
            )
    except BaseException:
        await _close(client)
        raise
    return client


async def _ignore_error(error: Exception) -> None:
    """Ignore errors of the connection, as the operation raises them too."""
    del error


async def _close(client: Client) -> None:
    with suppress(Exception):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await client.close()


# ---- errors ----------------------------------------------------------------------------------------------------------


_MAX_MESSAGE_CHARS = 500


def _error_info(error: Exception, name: str, context: ToolContext) -> ErrorInfo:
    """Return an error of NATS as an ErrorInfo. Raises ConfigError for a name or value that NATS rejects."""
    from nats.js import errors as stream_errors

    message = context.truncate(f"{name}: {_error_text(error)}", _MAX_MESSAGE_CHARS)
    if isinstance(error, stream_errors.APIError):
        code = getattr(error, "err_code", None)  # errors that the client raises itself have no code
        return ErrorInfo(_api_error_kind(error), message, None if code is None else str(code))
    kind = _client_error_kind(error)
    if kind == "config":
        raise ConfigError(message) from error
    return ErrorInfo(kind, message)


def _api_error_kind(error: Exception) -> str:
    from nats.js import errors as stream_errors

    if isinstance(error, stream_errors.NotFoundError):
        return "not_found"
    is_busy = isinstance(error, stream_errors.ServiceUnavailableError | stream_errors.ServerError)
    return "server_error" if is_busy else "client_error"


def _client_error_kind(error: Exception) -> str:
    import nats.errors
    from nats.js import errors as stream_errors

    login_errors = (nats.errors.AuthorizationError, nats.errors.InvalidUserCredentialsError)
    call_errors = (
        stream_errors.InvalidKeyError,
        stream_errors.InvalidBucketNameError,
        stream_errors.InvalidObjectNameError,
        nats.errors.BadSubjectError,
        nats.errors.MaxPayloadError,
    )
    if isinstance(error, login_errors) or "authorization" in str(error).lower():
        return "auth"
    if isinstance(error, call_errors):
        return "config"
    if isinstance(error, stream_errors.NoStreamResponseError | nats.errors.NoRespondersError):
        return "not_found"
    return "timeout" if isinstance(error, TimeoutError) else "connection"


def _error_text(error: Exception) -> str:
    """Return the message of the error; its class name if it has no message."""
    description = getattr(error, "description", None)
    return str(description or error or type(error).__name__).removeprefix("nats: ")


TOOL = NatsTool()
