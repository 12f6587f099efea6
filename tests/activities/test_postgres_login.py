"""What is sent to a server at login, and what of the worker's own environment is never used for it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import struct
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.outcome import Outcome
from noetl_activities.postgres import protocol as postgres_protocol
from noetl_activities.postgres import tool as postgres_tool
from noetl_activities.postgres.protocol import MAX_LOGIN_BYTES, MAX_ROUNDS, LoginWatch

from .conftest import Context, request

SECRET = "hush-hush-hush"
CLEARTEXT = (3).to_bytes(4, "big")
MD5 = (5).to_bytes(4, "big") + b"salt"
SASL = (10).to_bytes(4, "big") + b"SCRAM-SHA-256\0\0"
KERBEROS = (7).to_bytes(4, "big")
TLS_REQUEST = struct.pack("!II", 8, 80877103)
READY = b"Z" + struct.pack("!I", 5) + b"I"

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def authentication(body: bytes) -> bytes:
    return b"R" + struct.pack("!I", len(body) + 4) + body


class Listener:
    """A server with a given login request, which records all that it receives. ``tls`` is what it offers."""

    def __init__(self, login_request: bytes, tls: ssl.SSLContext | None) -> None:
        self.login_request = login_request
        self._tls = tls
        self.received = b""
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await self._read(reader, 8) == TLS_REQUEST:
            writer.write(b"S" if self._tls else b"N")
            await writer.drain()
            if self._tls:
                await writer.start_tls(self._tls)
                await self._read(reader, 8)
        writer.write(authentication(self.login_request))
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            while await self._read(reader):
                pass
        writer.close()

    async def _read(self, reader: asyncio.StreamReader, size: int = 0) -> bytes:
        data = await (reader.readexactly(size) if size else reader.read(4096))
        self.received += data
        return data


@asynccontextmanager
async def listening(login_request: bytes, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Listener]:
    listener = Listener(login_request, tls)
    async with await asyncio.start_server(listener.serve, "127.0.0.1", 0) as server:
        listener.port = server.sockets[0].getsockname()[1]
        yield listener


async def run(listener: Listener, **fields: Any) -> Outcome:
    login = {"type": "postgres", "db_host": "127.0.0.1", "db_port": listener.port, "db_user": "u", **fields}
    login_fields = {name: value for name, value in login.items() if value}
    return await postgres_tool.TOOL.run(request("postgres", "pg", query="select 1"), Context(pg=login_fields))


@pytest.fixture
def no_local_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback counts as a network that others can read."""

    def is_on_this_machine(_transport: asyncio.BaseTransport) -> bool:
        return False

    monkeypatch.setattr(postgres_protocol, "is_on_this_machine", is_on_this_machine)


@pytest.mark.usefixtures("no_local_peer")
@pytest.mark.parametrize(("login_request", "message"), [(CLEARTEXT, "in cleartext"), (MD5, "as MD5")])
async def test_a_password_is_not_sent_unencrypted(login_request: bytes, message: str) -> None:
    async with listening(login_request) as listener:
        error = (await run(listener, db_password=SECRET)).error
        assert error is not None
        assert (error.kind, error.retryable) == ("refused", False)
        assert f"requires the password {message}" in error.message
        assert b"p\0" not in listener.received


async def test_control_without_the_guard_the_password_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(_self: LoginWatch, _data: bytes) -> None:
        return None

    monkeypatch.setattr(LoginWatch, "refusal", refusal)
    async with listening(CLEARTEXT) as listener:
        await asyncio.wait([asyncio.create_task(run(listener, db_password=SECRET))], timeout=1)
        assert SECRET.encode() in listener.received


async def test_a_server_on_this_machine_may_ask_for_the_password() -> None:
    async with listening(CLEARTEXT) as listener:
        calling = asyncio.create_task(run(listener, db_password=SECRET))
        async with asyncio.timeout(30):
            while SECRET.encode() not in listener.received:
                await asyncio.sleep(0.01)
        calling.cancel()


@pytest.mark.usefixtures("no_local_peer")
@pytest.mark.parametrize(
    ("sslmode", "host"), [("prefer", "127.0.0.1"), ("require", "127.0.0.1"), ("verify-full", "localhost")]
)
async def test_over_tls_a_server_may_ask_for_the_password(certificate: Path, sslmode: str, host: str) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    more = {"sslrootcert": str(certificate)} if sslmode == "verify-full" else {}
    async with listening(CLEARTEXT, tls) as listener:
        calling = asyncio.create_task(run(listener, db_password=SECRET, sslmode=sslmode, db_host=host, **more))
        async with asyncio.timeout(30):
            while SECRET.encode() not in listener.received:
                await asyncio.sleep(0.01)
        calling.cancel()


@pytest.mark.parametrize("sslmode", ["verify-ca", "verify-full"])
async def test_an_untrusted_certificate_is_refused(certificate: Path, sslmode: str) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    async with listening(CLEARTEXT, tls) as listener:
        error = (await run(listener, db_password=SECRET, sslmode=sslmode)).error
        assert error is not None
        assert "CERTIFICATE_VERIFY_FAILED" in error.message
        assert SECRET.encode() not in listener.received


async def test_required_tls_is_not_skipped() -> None:
    async with listening(CLEARTEXT) as listener:
        error = (await run(listener, db_password=SECRET, sslmode="require")).error
        assert error is not None
        assert "rejected SSL upgrade" in error.message
        assert SECRET.encode() not in listener.received


async def test_kerberos_is_never_answered() -> None:
    async with listening(KERBEROS) as listener:
        error = (await run(listener, db_password=SECRET)).error
        assert error is not None
        assert "an authentication method that is not supported" in error.message


@pytest.fixture
def own_logins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The worker has logins of its own, in every place where a driver looks for them."""
    entry = tmp_path / "pgpass"
    entry.write_text(f"*:*:*:*:{SECRET}\n")
    entry.chmod(0o600)
    service = tmp_path / "services"
    service.write_text(f"[any]\npassword={SECRET}\nhost=127.0.0.1\nport=1\nuser={SECRET}\n")
    home = tmp_path / "home"
    (home / ".postgresql").mkdir(parents=True)
    (home / ".postgresql" / "postgresql.crt").write_text(SECRET)
    (home / ".pgpass").write_text(entry.read_text())
    (home / ".pgpass").chmod(0o600)
    for name, value in {
        "HOME": home,
        "PGPASSWORD": SECRET,
        "PGPASSFILE": entry,
        "PGSERVICE": "any",
        "PGSERVICEFILE": service,
        "PGUSER": SECRET,
        "PGDATABASE": SECRET,
        "PGPORT": "1",
        "PGHOST": "127.0.0.1",
        "PGSSLMODE": "verify-full",
        "PGSSLCERT": home / ".postgresql" / "postgresql.crt",
        "PGTARGETSESSIONATTRS": "no such",
        "PGGSSLIB": "no such",
    }.items():
        monkeypatch.setenv(name, str(value))
    return SECRET


@pytest.mark.parametrize("sslmode", ["", "prefer", "disable"])
@pytest.mark.parametrize("form", ["fields", "dsn"])
async def test_logins_of_the_worker_are_not_used(own_logins: str, sslmode: str, form: str) -> None:
    async with listening(CLEARTEXT) as listener:
        mode = f"?sslmode={sslmode}" if sslmode else ""
        dsn = f"postgresql://u@127.0.0.1:{listener.port}{mode}"
        fields = {"dsn": dsn, "db_host": ""} if form == "dsn" else {"sslmode": sslmode}
        calling = asyncio.create_task(run(listener, **fields))
        async with asyncio.timeout(30):
            while not listener.received.endswith(b"p\0\0\0\5\0"):
                await asyncio.sleep(0.01)
        calling.cancel()
        assert b"user\0u\0database\0u\0" in listener.received
        assert own_logins.encode() not in listener.received


async def test_control_the_driver_itself_uses_logins_of_the_worker(own_logins: str) -> None:
    async with listening(CLEARTEXT) as listener:
        dsn = f"postgresql://u@127.0.0.1:{listener.port}/d?sslmode=disable&target_session_attrs=any&gsslib=gssapi"
        calling = asyncio.create_task(asyncpg.connect(dsn))
        async with asyncio.timeout(30):
            while own_logins.encode() not in listener.received:
                await asyncio.sleep(0.01)
        calling.cancel()


@pytest.mark.usefixtures("own_logins")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"db_user": "u"}, r"needs db_host \(or dsn\)"),
        ({"db_host": "h"}, "needs db_user"),
        ({"dsn": "postgresql://u@/d"}, r"needs db_host \(or dsn\)"),
        ({"dsn": "postgresql://h/d"}, "needs db_user"),
        ({"dsn": f"postgresql://u:{SECRET}@h:port/d"}, "host and port at character 31"),
        ({"dsn": f"postgresql://u:{SECRET[:4]}/{SECRET[5:]}@h/d"}, "cannot be parsed from character 30 on"),
        ({"dsn": f"postgresql://u:{SECRET}@h/d?passfile=/x"}, "parameter 1 after the"),
        ({"dsn": f"postgresql://u:{SECRET}@h/d?service=any"}, "parameter 1 after the"),
        ({"dsn": SECRET}, "does not begin with postgresql://"),
        ({"db_host": "h", "db_user": "u", "sslmode": "any"}, "sslmode must be one of disable, allow"),
        ({"db_host": "h", "db_user": "u", "sslmode": "verify-ca", "sslrootcert": "/dev/null"}, "not a file with cert"),
    ],
)
async def test_missing_or_wrong_fields_are_reported(fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(CredentialError, match=expected) as failure:
        await postgres_tool.TOOL.run(request("postgres", "pg", query="select 1"), Context(pg=fields))
    assert "hush" not in str(failure.value)
    assert failure.value.__cause__ is None or isinstance(failure.value.__cause__, OSError)


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder", "no file", "NUL"])
def test_only_a_file_is_read_for_authorities(kind: str, tmp_path: Path) -> None:
    """A playbook names it; to read it holds up all of the worker. The calling process is one that can be ended."""
    os.mkfifo(tmp_path / "pipe")
    files = {"a pipe": str(tmp_path / "pipe"), "a device": "/dev/zero", "a folder": str(tmp_path), "NUL": "a\0b"}
    code = (
        "import sys; from noetl_activities.postgres.tls import tls_contexts\n"
        "tls_contexts('verify-full', sys.argv[1].replace('NUL', '\\0'))"
    )
    path = files.get(kind, "/nowhere").replace("\0", "NUL")
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=30)
    assert "CredentialError: sslrootcert is not a file with certificates (PEM)" in done.stderr


@pytest.mark.parametrize("kind", ["fields", "dsn", "in the task", "among hosts", "alias"])
async def test_a_socket_is_reached_by_a_registered_credential_alone(kind: str, tmp_path: Path) -> None:
    """Postgres commonly lets the account that connects there in without a password (``peer``): the worker's own."""
    fields: dict[str, Any] = {"db_host": str(tmp_path), "db_user": "u"}
    auth: Any = {
        "fields": fields,
        "dsn": {"dsn": f"postgresql://u@/d?host={tmp_path}"},
        "in the task": None,
        "among hosts": fields | {"db_host": f"localhost,{tmp_path}", "db_port": "1,5432"},
        "alias": {"pg": fields | {"type": "postgres"}},
    }[kind]
    config: dict[str, Any] = {"query": "select 1"} | (fields if auth is None else {})
    tool_request = request("postgres", auth, **config)
    with pytest.raises(ConfigError, match="cannot connect to a Unix socket"):
        await postgres_tool.TOOL.run(tool_request, Context())
    outcome = await postgres_tool.TOOL.run(request("postgres", "pg", query="select 1"), Context(pg=fields))
    assert outcome.error is not None
    assert outcome.error.kind == "connection", "the control: it was looked for"


def refusals_of(watch: LoginWatch, *messages: bytes) -> list[str | None]:
    """Byte by byte, as a network may cut them: the last answer to each message."""
    return [[watch.refusal(message[at : at + 1]) for at in range(len(message))][-1] for message in messages]


def test_scram_is_answered_everywhere() -> None:
    watch = LoginWatch(is_private=False)
    going = authentication((11).to_bytes(4, "big") + b"r=nonce,s=c2FsdA==,i=4096")
    final = authentication((12).to_bytes(4, "big") + b"v=proof")
    assert refusals_of(watch, authentication(SASL), going, final, authentication(bytes(4)), READY) == [None] * 5
    assert watch.is_done


@pytest.mark.parametrize("rounds", [str(MAX_ROUNDS + 1), "9" * 9, "9" * 5000, "0" * 50 + "9" * 9])
def test_scram_with_too_many_rounds_is_refused(rounds: str) -> None:
    body = (11).to_bytes(4, "big") + f"r=nonce,s=c2FsdA==,i={rounds}".encode()
    assert "rounds of SCRAM" in (LoginWatch(is_private=True).refusal(authentication(body)) or "")


def test_a_password_requested_after_the_login_is_not_sent() -> None:
    watch = LoginWatch(is_private=False)
    assert refusals_of(watch, authentication(bytes(4))) == [None]
    assert "in cleartext" in (watch.refusal(authentication(CLEARTEXT)) or "")


@pytest.mark.parametrize("data", [b"R" + bytes(4), b"R\0\0\0\3", b"S" + b"\xff" * 4, b"HTTP/1.1 400 Bad Request\r\n"])
def test_a_server_that_is_not_postgres_is_refused_immediately(data: bytes) -> None:
    assert "does not speak the Postgres protocol" in (LoginWatch(is_private=True).refusal(data) or "")


def test_an_endless_login_is_ended() -> None:
    watch = LoginWatch(is_private=True)
    notice = b"N" + struct.pack("!I", 4 + 1000) + bytes(1000)
    refusals = [watch.refusal(notice) for _ in range(MAX_LOGIN_BYTES // len(notice) + 1)]
    assert "over 64 KB" in (refusals[-1] or "")
    assert refusals[:-1] == [None] * (len(refusals) - 1)
