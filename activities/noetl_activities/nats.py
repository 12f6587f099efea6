"""The nats tool: one operation on a bucket, an object store or a stream of a NATS server with JetStream.

Each call opens a connection. The server and the login come from a credential; a playbook cannot name a server.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from noetl_activities.credentials import credential_name
from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.nats_operations import OPERATIONS
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Credential, Request, ToolContext
from noetl_activities.tool_spec import built_in

if TYPE_CHECKING:
    from nats.aio.client import Client

__all__ = ["TOOL", "NatsTool"]

CONNECT_SECONDS = 10
_CLOSE_SECONDS = 2.0
_ADDRESS = ("nats_url", "url", "servers")
_USER, _PASSWORD = ("nats_user", "user", "username"), ("nats_password", "password")


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
        return await _made(name, request, await context.credential(request.auth), context)


async def _made(name: str, request: Request, credential: Credential, context: ToolContext) -> Outcome:
    import nats.errors

    try:
        client = await _connected(credential)
        try:
            answer = await OPERATIONS[name](client.jetstream(), request)  # pyright: ignore[reportUnknownMemberType]
        finally:
            await _close(client)
    except (nats.errors.Error, OSError, TimeoutError) as error:
        return Outcome("error", error=_failure(error, name, context))
    return Outcome("ok", {"operation": name, **answer})


async def _connected(credential: Credential) -> Client:
    """Connect without automatic reconnects: a lost connection fails the call, and its policy decides about retries."""
    from nats.aio.client import Client

    address = _first(credential, _ADDRESS)
    if not address:
        raise CredentialError("a credential of type nats needs a url: nats://HOST:PORT")
    client = Client()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await client.connect(
                address.split(","),
                user=_first(credential, _USER),
                password=_first(credential, _PASSWORD),
                token=_first(credential, ("token",)),
                allow_reconnect=False,
                max_reconnect_attempts=1,  # 0 means without an end
                reconnect_time_wait=0,
                error_cb=_ignored,
            )
    except BaseException:
        await _close(client)
        raise
    return client


def _first(credential: Credential, names: tuple[str, ...]) -> str | None:
    return next((str(credential[name]) for name in names if credential.get(name)), None)


async def _ignored(error: Exception) -> None:
    """Ignore errors of the connection, as the operation raises them too."""
    del error


async def _close(client: Client) -> None:
    with suppress(Exception):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await client.close()


# ---- errors ----------------------------------------------------------------------------------------------------------


_MAX_MESSAGE = 500


def _failure(error: Exception, name: str, context: ToolContext) -> ErrorInfo:
    """Return the outcome of an error. Raises ConfigError for a name or value that NATS rejects."""
    from nats.js import errors as stream_errors

    message = context.cut(f"{name}: {_words(error)}", _MAX_MESSAGE)
    if isinstance(error, stream_errors.APIError):
        number = getattr(error, "err_code", None)  # errors that the client makes itself have none
        return ErrorInfo(_kind_of_answer(error), message, None if number is None else str(number))
    kind = _kind(error)
    if kind == "config":
        raise ConfigError(message) from error
    return ErrorInfo(kind, message)


def _kind_of_answer(error: Exception) -> str:
    from nats.js import errors as stream_errors

    if isinstance(error, stream_errors.NotFoundError):
        return "not_found"
    is_busy = isinstance(error, stream_errors.ServiceUnavailableError | stream_errors.ServerError)
    return "server_error" if is_busy else "client_error"


def _kind(error: Exception) -> str:
    import nats.errors
    from nats.js import errors as stream_errors

    refused = (nats.errors.AuthorizationError, nats.errors.InvalidUserCredentialsError)
    wrong = (
        stream_errors.InvalidKeyError,
        stream_errors.InvalidBucketNameError,
        stream_errors.InvalidObjectNameError,
        nats.errors.BadSubjectError,
        nats.errors.MaxPayloadError,
    )
    if isinstance(error, refused) or "authorization" in str(error).lower():
        return "auth"
    if isinstance(error, wrong):
        return "config"
    if isinstance(error, stream_errors.NoStreamResponseError | nats.errors.NoRespondersError):
        return "not_found"
    return "timeout" if isinstance(error, TimeoutError) else "connection"


def _words(error: Exception) -> str:
    """Return the message of NATS; the name of the error if it has none."""
    description = getattr(error, "description", None)
    return str(description or error or type(error).__name__).removeprefix("nats: ")


TOOL = NatsTool()
