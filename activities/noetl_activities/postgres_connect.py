"""Connections of the postgres tool and sink: from a credential.

A call has a connection for itself, new or reset: it sees nothing of other playbooks (settings, temporary tables, an
aborted transaction).

All arguments of a connection come from the credential or the playbook. The driver would read missing ones from the
environment: PGPASSWORD, ~/.pgpass, service files, client certificates. These belong to the worker, and a playbook may
name any host. So every argument is passed explicitly, and missing ones are an error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from noetl_activities.credentials import credential_name
from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.postgres_dsn import SETTINGS, DsnError, dsn_fields
from noetl_activities.postgres_errors import UnreachableError
from noetl_activities.postgres_pool import Connection, closed, connection_pool
from noetl_activities.postgres_protocol import guard_logins, receiving_at_most
from noetl_activities.postgres_times import set_time_codecs
from noetl_activities.postgres_tls import MODES, Attempt, declined, tls_attempts
from noetl_activities.postgres_types import TypeLimitedConnection
from noetl_activities.tool import Credential, Json, ToolContext
from noetl_activities.variables import DEFAULT_CREDENTIAL_VARIABLE

__all__ = ["CREDENTIAL_FIELDS", "Connection", "connected", "connected_to", "login"]

guard_logins()

MAX_RECEIVED_BYTES = 64 * 2**20
"""Maximum bytes that one call may receive. In memory, a result takes a multiple of that."""

_CONNECT_TIMEOUT = 15.0
_DSN = ("dsn", "connection_string", "url")
_FIELDS = {
    "host": ("db_host", "host"),
    "port": ("db_port", "port"),
    "user": ("db_user", "user", "username"),
    "password": ("db_password", "password"),
    "database": ("db_name", "database", "dbname"),
    "sslmode": ("sslmode", "ssl"),
    "sslrootcert": ("sslrootcert",),
}
_OF_A_TASK = ("connection_string", "dsn", *(aliases[0] for aliases in _FIELDS.values()))
"""Fields of a task that set the server and the account."""

CREDENTIAL_FIELDS = frozenset({*_DSN, *(alias for aliases in _FIELDS.values() for alias in aliases)})
"""Fields of a credential. A task that names a credential cannot set them."""

_SSL_FLAGS = {"true": "require", "false": "disable"}
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})


@asynccontextmanager
async def connected(
    auth: Json,
    config: dict[str, Json],
    context: ToolContext,
    connect_timeout: float | None = None,
) -> AsyncGenerator[Connection]:
    """A connection for the ``auth`` (a credential's name or fields), or for ``connection_string`` or ``db_*`` fields;
    without any of these for the default credential of the deployment (semantics.md 31).

    ``connect_timeout`` in seconds. JSON columns are values, times are text. If connections are kept (postgres_pool.py),
    it may be one that was used before. Raises CredentialError, asyncpg's errors and OSError.
    """
    try:
        async with connected_to(await login(auth, config, context), connect_timeout) as connection:
            with receiving_at_most(connection, MAX_RECEIVED_BYTES):
                yield connection
    except UnreachableError as error:
        raise error.named(credential_name(_given(auth, config))) from error


async def login(auth: Json, config: dict[str, Json], context: ToolContext) -> dict[str, Any]:
    """Return the arguments of a connection, equal for calls that may share one. Raises CredentialError, ConfigError."""
    given = _given(auth, config)
    if not given:
        raise CredentialError(
            "a postgres task needs auth: the name of a credential. For tasks without it, set "
            f"{DEFAULT_CREDENTIAL_VARIABLE} to a name for the worker"
        )
    beside = sorted(name for name in CREDENTIAL_FIELDS if config.get(name))
    if beside and credential_name(given) is not None:
        raise ConfigError(f"the task names a credential and also sets {', '.join(beside)}: remove one of them")
    arguments = _arguments(await context.credential(given))
    if credential_name(given) is None and any(host.startswith("/") for host in arguments["host"].split(",")):
        raise ConfigError(
            "a playbook cannot connect to a Unix socket of Postgres, which may accept the worker's account without "
            "a password: register a credential for it, and name it in auth"
        )
    return arguments


def _given(auth: Json, config: dict[str, Json]) -> Json:
    if auth is not None:
        return auth
    own = {name: config[name] for name in _OF_A_TASK if config.get(name)}
    return config.get("credential") or own or os.environ.get(DEFAULT_CREDENTIAL_VARIABLE)


@asynccontextmanager
async def connected_to(arguments: dict[str, Any], connect_timeout: float | None = None) -> AsyncGenerator[Connection]:
    """A connection for these arguments of ``login``; see ``connected``."""
    kept = connection_pool()
    async with kept.slots(arguments) if kept else nullcontext():
        connection = await kept.take(arguments) if kept else None
        if connection is None:
            connection = await _opened(arguments, connect_timeout)
        try:
            yield connection
        except BaseException:
            await closed(connection)
            raise
        await (kept.give_back(arguments, connection) if kept else closed(connection))


async def _opened(arguments: dict[str, Any], seconds: float | None) -> Connection:
    """Open a connection, without caching prepared statements: they are discarded between calls (postgres_pool.py)."""
    try:
        connection = await _logged_in(arguments, seconds or _CONNECT_TIMEOUT)
    except OSError as error:
        raise UnreachableError.at(_place(arguments), error) from error
    try:
        await _set_codecs(connection)
    except BaseException:
        await closed(connection)
        raise
    return connection


async def _logged_in(arguments: dict[str, Any], seconds: float) -> Connection:
    attempts = tls_attempts(arguments["sslmode"], arguments.get("sslrootcert"))
    for attempt in attempts[:-1]:
        try:
            return await _connect(arguments, attempt, seconds)
        except OSError as error:
            if not declined(error):
                raise
    return await _connect(arguments, attempts[-1], seconds)


async def _connect(arguments: dict[str, Any], tls: Attempt, seconds: float) -> Connection:
    """Connect, passing every argument that asyncpg would otherwise read from the environment and the home folder."""
    connection: Connection = await asyncpg.connect(
        host=arguments["host"].split(","),
        port=[int(port) for port in arguments["port"].split(",")],
        user=arguments["user"],
        password=arguments["password"],
        database=arguments["database"],
        ssl=tls,
        direct_tls=False,
        target_session_attrs=SessionAttribute.any,
        krbsrvname="postgres",
        gsslib="gssapi",
        server_settings={name: arguments[name] for name in SETTINGS if name in arguments},
        timeout=seconds,
        statement_cache_size=0,
        connection_class=TypeLimitedConnection,
    )
    return connection


def _place(arguments: dict[str, Any]) -> str:
    """HOST:PORT, several separated by commas; a single port applies to all hosts."""
    hosts, ports = arguments["host"].split(","), arguments["port"].split(",")
    return ", ".join(f"{host}:{ports[min(index, len(ports) - 1)]}" for index, host in enumerate(hosts))


def _arguments(credential: Credential) -> dict[str, Any]:
    """Return the arguments as text, so that calls with equal ones may share a connection."""
    dsn = next((credential[name] for name in _DSN if credential.get(name)), None)
    try:
        fields = _of_fields(credential) if dsn is None else dsn_fields(str(dsn))
    except DsnError as error:
        raise CredentialError(f"the DSN of this postgres credential is not valid: {error}") from None
    for name, field in (("host", "db_host (or dsn)"), ("user", "db_user")):
        if name not in fields:
            raise CredentialError(f"a postgres credential needs {field}")
    host, user = fields["host"], fields["user"]
    mode = fields.get("sslmode") or ("disable" if host in _HERE or host.startswith("/") else "prefer")
    if mode not in MODES:
        raise CredentialError(f"sslmode must be one of {', '.join(MODES)}")
    if not all(map(_is_port, fields.get("port", "5432").split(","))):
        raise ConfigError("db_port must be a number up to 65535")
    return {"port": "5432", "password": "", "database": user, **fields, "sslmode": mode}


def _is_port(text: str) -> bool:
    return text.isdecimal() and len(text) <= len("65535") and 0 < int(text) < 2**16


def _of_fields(credential: Credential) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, aliases in _FIELDS.items():
        value = next((credential[alias] for alias in aliases if credential.get(alias) not in (None, "")), None)
        if value is not None:
            fields[name] = str(value)
    if credential.get("options"):
        fields["options"] = str(credential["options"])
    if "sslmode" in fields:
        mode = fields["sslmode"].lower()
        fields["sslmode"] = _SSL_FLAGS.get(mode, mode)
    return fields


def _decoded(text: str) -> Json:
    """Return the value of a JSON column. Raises ConfigError if Python cannot parse it."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"a json value of the result is not valid JSON: {error}") from None
    except ValueError:
        most = sys.get_int_max_str_digits()
        raise ConfigError(
            f"a json value of the result has an integer of over {most:,} digits: select it as text, or its other parts"
        ) from None


async def _set_codecs(connection: Connection) -> None:
    """Decode JSON columns as values, and times as text."""
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, encoder=json.dumps, decoder=_decoded, schema="pg_catalog")
    await set_time_codecs(connection)
