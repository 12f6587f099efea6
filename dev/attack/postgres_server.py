"""A Postgres server that sends arbitrary bytes in response to one statement, and behaves normally otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import NamedTuple

from dev.attack.raw_server import accepting

__all__ = ["READY", "STATEMENT", "Column", "Script", "message", "nested", "row", "serving_postgres"]

STATEMENT = "select what a hostile server answers"
READY = b"Z\0\0\0\5I"

_TLS, _CANCEL = 80877103, 80877102
_HEADER = struct.Struct("!cI")
_OF_TYPES = (("oid", 26), ("elemtype", 26), ("kind", 18))
_DESCRIBED = (
    *(("oid", 26), ("ns", 25), ("name", 25), ("kind", 18), ("basetype", 26), ("elemtype", 26), ("elemdelim", 18)),
    *(("range_subtype", 26), ("attrtypoids", 1028), ("attrnames", 1009), ("depth", 23), ("basetype_name", 25)),
    *(("elemtype_name", 25), ("range_subtype_name", 25)),
)
_OIDS = {"json": 114, "jsonb": 3802, "date": 1082, "time": 1083, "timestamp": 1114, "timestamptz": 1184} | {
    "interval": 1186,
    "timetz": 1266,
}

Column = tuple[str, int]


class Script(NamedTuple):
    """The server's answers. ``columns`` and ``rows`` (messages) are those of the hostile statement; ``types`` those of
    the question for types that the driver does not know. ``ending`` replaces the end of the statement, and nothing is
    answered after it. ``silent_at`` is the beginning of a statement that is never answered.
    """

    columns: tuple[Column, ...] = (("a", 23),)
    rows: Iterable[bytes] = ()
    types: Iterable[bytes] = ()
    ending: bytes | None = None
    silent_at: str = ""
    reply: Callable[[asyncio.StreamWriter], Awaitable[None]] | None = None


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def row(*values: bytes | None) -> bytes:
    """Return the message with a row of these values, None for NULL."""
    fields = (b"\xff\xff\xff\xff" if value is None else struct.pack("!I", len(value)) + value for value in values)
    return message(b"D", struct.pack("!H", len(values)) + b"".join(fields))


def nested(types: Iterable[int]) -> bytes:
    """Return nested records; ``types`` are those of their only fields, the outermost first."""
    type_ids = list(types)
    size, parts = 4, [bytes(4)]
    for oid in reversed(type_ids):
        parts.append(struct.pack("!III", 1, oid, size))
        size += 12
    return b"".join(reversed(parts))


@contextlib.asynccontextmanager
async def serving_postgres(script: Script) -> AsyncGenerator[int]:
    """Serve on loopback and yield the port."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _Session(script, reader, writer).serve()

    async with accepting(talk) as port:
        yield port


class _Session:
    """A connection of a client."""

    def __init__(self, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._script, self._reader, self._writer = script, reader, writer
        self._statement = ""
        self._parameters = ""

    async def serve(self) -> None:
        """Accept any login, then respond until the client disconnects."""
        if not await self._negotiate():
            return
        parameters = {"server_version": "10.0", "client_encoding": "UTF8", "integer_datetimes": "on", "TimeZone": "UTC"}
        settings = (message(b"S", f"{name}\0{value}\0".encode()) for name, value in parameters.items())
        self._writer.write(message(b"R", bytes(4)) + b"".join(settings) + message(b"K", bytes(8)) + READY)
        while True:
            kind, length = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
            body = await self._reader.readexactly(length - 4)
            if kind == b"X":
                return
            await self._respond(kind, body)
            await self._writer.drain()

    async def _negotiate(self) -> bool:
        while True:
            length = int.from_bytes(await self._reader.readexactly(4), "big")
            request_code = int.from_bytes((await self._reader.readexactly(length - 4))[:4], "big")
            if request_code == _CANCEL:
                return False
            if request_code != _TLS:
                return True
            self._writer.write(b"N")

    async def _respond(self, kind: bytes, body: bytes) -> None:
        if kind in (b"P", b"Q"):
            self._statement = body.split(b"\0")[kind == b"P"].decode()
        script = self._script
        if script.silent_at and self._statement.lower().startswith(script.silent_at):
            await asyncio.Event().wait()
        if kind == b"B":
            self._parameters = body.decode("latin-1")
        if kind == b"E":
            await self._execute()
        elif kind == b"D":
            self._writer.write(self._description())
        elif kind == b"Q":
            self._writer.write(message(b"C", self._statement.split(";")[0].split()[0].upper().encode() + b"\0") + READY)
        else:
            responses = {b"P": message(b"1"), b"B": message(b"2"), b"C": message(b"3"), b"S": READY}
            self._writer.write(responses.get(kind, b""))

    def _description(self) -> bytes:
        parameters = 2 if "t.typname = $1" in self._statement else 0
        types = struct.pack("!H", parameters) + struct.pack("!I", 19) * parameters
        if "typeinfo_tree" in self._statement:
            types = struct.pack("!HI", 1, 1028)
        columns = self._columns()
        if not columns:
            return message(b"t", types) + message(b"n")
        fields = (name.encode() + b"\0" + struct.pack("!IHIhih", 0, 0, oid, -1, -1, 1) for name, oid in columns)
        return message(b"t", types) + message(b"T", struct.pack("!H", len(columns)) + b"".join(fields))

    def _columns(self) -> tuple[Column, ...]:
        if "t.typname = $1" in self._statement:
            return _OF_TYPES
        if "typeinfo_tree" in self._statement:
            return _DESCRIBED
        return self._script.columns if self._statement == STATEMENT else ()

    async def _execute(self) -> None:
        script, ending = self._script, message(b"C", b"SELECT 1\0")
        if "t.typname = $1" in self._statement:
            matching_oid = next(oid for name, oid in _OIDS.items() if f"\0{chr(len(name))}{name}\0" in self._parameters)
            self._writer.write(row(struct.pack("!I", matching_oid), bytes(4), b"b"))
        elif "typeinfo_tree" in self._statement:
            self._writer.writelines(script.types)
        elif self._statement == STATEMENT:
            if script.reply is not None:
                await script.reply(self._writer)
            for values in script.rows:
                self._writer.write(values)
                await self._writer.drain()
            if script.ending is not None:
                self._writer.write(script.ending)
                await asyncio.Event().wait()
        self._writer.write(ending)
