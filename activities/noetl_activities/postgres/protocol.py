"""Restricts the authentication methods of Postgres servers, and the amount of data that they may send.

The driver answers any authentication request, so it would send the password in cleartext to anyone who runs the server
or intercepts the connection. It has no setting against that (libpq has ``require_auth``), so its protocol is replaced
by a subclass that inspects the messages until the server is ready for queries:

    server ──► LoginWatch ──► asyncpg
                   └── a forbidden request: the connection is closed before the driver sees it

Requests for the password itself, or its MD5, are answered only on private connections: TLS, loopback, Unix sockets.
Otherwise the server must use SCRAM, which proves that the client knows the password without revealing it. Kerberos
requests are never answered, because that would use the identity of the worker's account. The rounds of SCRAM, which the
server determines, are limited too.

``guard_logins`` guards all connections of the process. Every module that connects calls it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from weakref import WeakKeyDictionary

import asyncpg
from asyncpg import protocol

from noetl_activities.errors import ConfigError
from noetl_activities.postgres.records import MAX_RECORDS, RecordWatch

__all__ = ["GuardedProtocol", "LoginRefusedError", "LoginWatch", "guard_logins", "limit_received_bytes"]

MAX_LOGIN_BYTES = 64 * 1024
"""Maximum size of what a server sends before it is ready for queries; usually it is under 1 KB."""

MAX_ROUNDS = 600_000
"""Maximum rounds of SCRAM's key derivation: they block the event loop for about 0.3 s. Postgres itself uses 4,096."""

_HEADER = struct.Struct("!cI")
_OK, _CLEARTEXT, _MD5, _SASL, _SASL_CONTINUE, _SASL_FINAL = 0, 3, 5, 10, 11, 12
_SCRAM = frozenset({_OK, _SASL, _SASL_CONTINUE, _SASL_FINAL})
_REVEALING = {_CLEARTEXT: "in cleartext", _MD5: "as MD5"}
_ROUNDS_FIELD = re.compile(rb",i=(\d+)")

if TYPE_CHECKING:
    _Protocol: TypeAlias = protocol.Protocol[asyncpg.Record]
else:
    _Protocol = protocol.Protocol


class LoginRefusedError(asyncpg.InterfaceError):
    """The server requires an authentication method that is refused. The message contains the remedy."""


class LoginWatch:
    """Inspects what a server sends until the login ``is_done``. ``is_private``: no one else can read the connection."""

    def __init__(self, is_private: bool) -> None:
        self.is_done = False
        self._is_private = is_private
        self._unread = bytearray()
        self._remaining_bytes = MAX_LOGIN_BYTES

    @property
    def unread(self) -> bytes:
        """The data received after the login."""
        return bytes(self._unread)

    def refusal(self, data: bytes) -> str | None:
        """Return why the login is refused after these bytes; None if it may continue."""
        self._remaining_bytes -= len(data)
        if self._remaining_bytes < 0:
            return f"the server sent over {MAX_LOGIN_BYTES // 1024} KB before the end of the login: it is not Postgres"
        self._unread += data
        while not self.is_done and len(self._unread) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._unread)
            if not _HEADER.size - 1 <= length <= MAX_LOGIN_BYTES:  # the driver would accept a negative length
                return "the server does not speak the Postgres protocol"
            if len(self._unread) <= length:
                return None
            refusal = self._refusal_of_message(kind, bytes(self._unread[_HEADER.size : length + 1]))
            if refusal:
                return refusal
            del self._unread[: length + 1]
        return None

    def _refusal_of_message(self, kind: bytes, body: bytes) -> str | None:
        if kind == b"Z":
            self.is_done = True
        if kind != b"R":
            return None
        request = int.from_bytes(body[:4], "big")
        if request == _SASL_CONTINUE and _scram_rounds(body) > MAX_ROUNDS:
            return f"the server asks for more than {MAX_ROUNDS:,} rounds of SCRAM"
        if request in _SCRAM or (self._is_private and request in _REVEALING):
            return None
        return _refusal_text(request)


def _scram_rounds(message: bytes) -> int:
    match = _ROUNDS_FIELD.search(message)
    return 0 if match is None else int(match[1].lstrip(b"0")[:10] or 0)


def _refusal_text(request: int) -> str:
    if request not in _REVEALING:
        return "the server requires an authentication method that is not supported: configure scram-sha-256"
    return (
        f"the server requires the password {_REVEALING[request]} over an unencrypted connection: it was not sent. "
        "Set sslmode to require, or configure the server to use scram-sha-256"
    )


def _is_private(transport: asyncio.BaseTransport) -> bool:
    """Whether the connection is encrypted or local, so that no one else can read it."""
    return transport.get_extra_info("ssl_object") is not None or is_on_this_machine(transport)


def is_on_this_machine(transport: asyncio.BaseTransport) -> bool:
    """Whether the connection uses a Unix socket or loopback."""
    if transport.get_extra_info("socket").family == getattr(socket, "AF_UNIX", None):
        return True
    peer = str(transport.get_extra_info("peername")[0]).partition("%")[0]
    return ipaddress.ip_address(peer).is_loopback


class GuardedProtocol(_Protocol):
    """asyncpg's protocol with a LoginWatch, a RecordWatch, and a limit on received data (``limit_received_bytes``)."""

    def __init__(self, addr: Any, login_future: asyncio.Future[Any], *others: Any) -> None:
        super().__init__(addr, login_future, *others)
        self._login_future = login_future
        self._watch: LoginWatch | None = None
        self._records = RecordWatch()
        self._remaining_bytes: int | None = None
        self._transport: asyncio.Transport | None = None
        self.has_too_many_records = False

    def connection_made(self, transport: object) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)
        self._watch = LoginWatch(_is_private(self._transport))
        super().connection_made(transport)

    def data_received(self, data: object) -> None:
        """See asyncio.Protocol."""
        if self._watch is not None:
            refusal = self._watch.refusal(cast("bytes", data))
            if refusal:
                self._abort(LoginRefusedError(refusal))
                return
            if self._watch.is_done:
                self._records = RecordWatch(self._watch.unread)
                self._watch = None
        elif self._records.is_exceeded(cast("bytes", data)):
            self.has_too_many_records = True
            self._abort(None)
            return
        if self._remaining_bytes is not None:
            self._remaining_bytes -= len(cast("bytes", data))
            if self._remaining_bytes < 0:
                self._abort(None)
                return
        super().data_received(data)

    def set_connection(self, connection: object) -> None:
        """See asyncpg, which calls this after the login."""
        _PROTOCOLS[cast("asyncpg.Connection[Any]", connection)] = self
        super().set_connection(connection)

    def limit_received(self, size: int | None) -> None:
        """Limit the bytes that are received from now on; None for no limit."""
        self._remaining_bytes = size

    @property
    def is_exceeded(self) -> bool:
        """Whether the limit was exceeded and the connection closed."""
        return self._remaining_bytes is not None and self._remaining_bytes < 0

    def _abort(self, error: Exception | None) -> None:
        if error is not None and not self._login_future.done():
            self._login_future.set_exception(error)
        if self._transport is not None:
            self._transport.abort()


_PROTOCOLS: WeakKeyDictionary[asyncpg.Connection[Any], GuardedProtocol] = WeakKeyDictionary()


def guard_logins() -> None:
    """Guard all connections that this process makes from now on. May be called repeatedly."""
    setattr(protocol, "Protocol", GuardedProtocol)  # noqa: B010 - asyncpg has no parameter for it


@contextmanager
def limit_received_bytes(connection: asyncpg.Connection[Any], size: int) -> Generator[None]:
    """Close the connection and raise ConfigError if the server sends more than ``size`` bytes during the block."""
    guarded_protocol = _PROTOCOLS[connection]
    guarded_protocol.limit_received(size)
    try:
        yield
    except Exception as error:
        if guarded_protocol.has_too_many_records:
            raise ConfigError(f"a row contains over {MAX_RECORDS:,} records: select their fields") from error
        if guarded_protocol.is_exceeded:
            raise ConfigError(f"the result is over {size // 2**20} MB: request less at a time") from error
        raise
    finally:
        guarded_protocol.limit_received(None)
