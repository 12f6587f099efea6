"""Responses of a hostile Postgres server: nested, invalid and oversized values, silence; and invalid addresses."""

from __future__ import annotations

import asyncio
import os
import random
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dev.attack.attack import Attack, AttackClass
from dev.attack.postgres_server import STATEMENT, Script, message, nested, row, serving_postgres
from dev.attack.tool_calls import call
from noetl_activities.errors import ToolError
from noetl_activities.outcome import Outcome
from noetl_activities.postgres import connect as postgres_connect
from noetl_activities.postgres import transaction as postgres_transaction
from noetl_activities.postgres.records import MAX_RECORDS, RecordWatch
from noetl_activities.postgres.tool import TOOL
from noetl_activities.postgres.types import MAX_NESTED_TYPES, TypeDepths

__all__ = ["CLASS", "deep_types"]

FIRST = 100_000
"""The id of a type that the driver does not know."""

RECORD, INT4 = 2249, 23
LARGE = 65 * 2**20
PATIENCE = 0.5
LATE = 20.0
"""Seconds after which a call was not ended in time: its own, and what a rollback and a close may take."""


def _composite(oid: int, inner: int) -> bytes:
    head = (struct.pack("!I", oid), b"public", b"t", b"c", None, None, b",", None)
    composite = struct.pack("!IIIII", 1, 0, 26, 1, 1) + struct.pack("!II", 4, inner)
    name = struct.pack("!IIIII", 1, 0, 19, 1, 1) + struct.pack("!I", 1) + b"a"
    return row(*head, composite, name, bytes(4), None, None, None)


def deep_types(levels: int) -> Script:
    """Return nested composite types and a value of the outermost."""
    types = [_composite(FIRST + n, FIRST + n - 1 if n else INT4) for n in range(levels)]
    type_ids = [*range(FIRST + levels - 2, FIRST - 1, -1), INT4]
    return Script(columns=(("a", FIRST + levels - 1),), types=types, rows=[row(nested(type_ids))])


def _types(rng: random.Random) -> tuple[str, Script]:
    levels = rng.randint(MAX_NESTED_TYPES + 1, 60_000)
    return f"{levels} types in each other", deep_types(levels)


def _records(rng: random.Random) -> tuple[str, Script]:
    return _of_records(rng.randint(MAX_RECORDS + 1, 500_000))


def _of_records(levels: int) -> tuple[str, Script]:
    value = nested([RECORD] * levels)
    return f"{levels} records in each other", Script(columns=(("a", RECORD),), rows=[row(value)])


def _json(rng: random.Random) -> tuple[str, Script]:
    digits, depth = rng.randint(4301, 10**6), rng.randint(10_000, 10**6)
    texts = (b"9" * digits, b"-" + b"1" * digits, b"[" * depth + b"]" * depth, b'{"a":' * depth, b"{", b"\xff", b"")
    text = rng.choice(texts)
    return f"json of {len(text)} bytes: {text[:9]!r}", Script(columns=(("a", 114),), rows=[row(text)])


def _invalid_value(rng: random.Random) -> tuple[str, Script]:
    """Values that do not match their type."""
    oid = rng.choice((16, 20, 23, 701, 1043, 1082, 1184, 1186, 2950, 1007, 600, 869, 3904, 1560))
    value = rng.choice((b"\xff", b"\xff" * 3, b"\x7f\xff\xff\xff" * 5, b"\0" * 9, b"\xff" * 17))
    if oid == 1043:
        value = b"\xff" + value
    return f"type {oid}, {value!r}", Script(columns=(("a", oid), ("b", oid)), rows=[row(value)])


def _error(rng: random.Random) -> tuple[str, Script]:
    size = rng.randint(LARGE, LARGE + 2**20)
    kind = rng.choice((b"E", b"N"))
    body = b"SERROR\0C22000\0M" + b"x" * size + b"\0\0"
    return f"{kind!r} of {size} bytes", Script(rows=[message(kind, body)])


def _rows(rng: random.Random) -> tuple[str, Script]:
    size = rng.randint(2**16, 2**20)
    return f"rows of {size} bytes without an end", Script(rows=(row(bytes(size)) for _ in range(LARGE // size + 1)))


def _silent(rng: random.Random) -> tuple[str, Script]:
    """Return silence at some statement, or a COPY that never ends."""
    copy = message(b"G" if rng.random() < 0.5 else b"H", b"\0\0\0")
    choices = (("begin", None), ("rollback", b""), ("select what", None), ("commit", None), ("", copy), ("", b""))
    silent_at, ending = rng.choice(choices)
    return f"silent at {silent_at or 'the end'}, {ending!r}", Script(silent_at=silent_at, ending=ending)


Maker = Callable[[random.Random], tuple[str, Script]]
MAKERS: tuple[Maker, ...] = (_types, _records, _json, _invalid_value, _error, _rows, _silent)


def _login_attack(rng: random.Random) -> Attack:
    """Return a login that uses a socket or a file of the worker's machine."""
    seven = f"/{rng.randint(1, 999)}"
    hosts = ("/tmp", "/var/run/postgresql", f"/tmp{seven}", f"127.0.0.1,/tmp{seven}", "/")
    files = (_pipe(), "/dev/zero", "/dev/tty", "/proc/self/mem", "/")
    if rng.random() < 0.5:
        host = rng.choice(hosts)
        return Attack(f"socket {host}", partial(_connects, {"db_host": host, "db_user": "u"}))
    file = rng.choice(files)
    name = "a pipe" if file == _pipe() else file
    return Attack(f"sslrootcert {name} {seven}", partial(_reads, file))


def _pipe() -> str:
    """Return the path of a pipe to which nobody writes."""
    path = Path(tempfile.gettempdir(), f"noetl-attack-{os.getpid()}.database.pipe")
    if not path.exists():
        os.mkfifo(path)
    return str(path)


def _connects(login: dict[str, Any]) -> bool:
    """Whether the worker tried to connect as itself."""
    try:
        asyncio.run(call(TOOL, {"query": "select 1", **login}, limit=PATIENCE))
    except ToolError:
        return False
    return True


def _reads(file: str) -> bool:
    login = {"type": "postgres", "db_host": "127.0.0.1", "db_port": 1, "db_user": "u", "sslmode": "verify-full"}
    try:
        asyncio.run(call(TOOL, {"query": "select 1"}, credentials={"pg": {**login, "sslrootcert": file}}))
    except ToolError:
        return False
    return True


def _gets_through(script: Script) -> bool:
    return asyncio.run(_is_obeyed(script))


async def _is_obeyed(script: Script) -> bool:
    """Whether the response was accepted, or the call exceeded its timeout. Other exceptions than refusals count too."""
    start = time.monotonic()
    try:
        outcome = await _call(script)
    except (ToolError, TimeoutError):
        return time.monotonic() - start > LATE
    return outcome.status == "ok" or len(str(outcome)) > LARGE


async def _call(script: Script) -> Outcome:
    async with serving_postgres(script) as port:
        login = {"type": "postgres", "db_host": "127.0.0.1", "db_port": port, "db_user": "u", "db_password": "x"}
        # A worker cancels the call when its time is over.
        waits = script.silent_at or script.ending is not None
        async with asyncio.timeout(PATIENCE if waits else LATE):
            return await call(TOOL, {"query": STATEMENT}, credentials={"pg": login})


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    """Yield scripts of all makers and logins, in turn."""
    for index in range(count):
        number = index % (len(MAKERS) + 1)
        if number == len(MAKERS):
            yield _login_attack(rng)
        else:
            description, script = MAKERS[number](rng)
            yield Attack(f"{MAKERS[number].__name__.strip('_')}: {description}", partial(_gets_through, script))


def _is_never_exceeded(*_: object) -> bool:
    return False


def _disable_guard() -> AbstractContextManager[object]:
    guards = ExitStack()
    guards.enter_context(patch.object(RecordWatch, "is_exceeded", _is_never_exceeded))
    guards.enter_context(patch.object(TypeDepths, "is_exceeded", _is_never_exceeded))
    guards.enter_context(patch.object(postgres_connect, "MAX_RECEIVED_BYTES", 2**31))
    guards.enter_context(patch.object(postgres_transaction, "CLOSE_SECONDS", LATE))
    return guards


def _nested_too_deep() -> bool:
    return _gets_through(deep_types(40_000))


def _records_too_deep() -> bool:
    return _gets_through(_of_records(100_000)[1])


def _large_error() -> bool:
    return _gets_through(_error(random.Random(1))[1])


def _copy_without_end() -> bool:
    return _gets_through(Script(ending=message(b"G", b"\0\0\0")))


CLASS = AttackClass(
    "database_server",
    _attacks,
    (
        Attack("40,000 types", _nested_too_deep, effect="ended the process"),
        Attack("100,000 records", _records_too_deep, effect="ended the process"),
        Attack("an error of 65 MB", _large_error),
        Attack("a COPY without an end", _copy_without_end),
    ),
    _disable_guard,
)
