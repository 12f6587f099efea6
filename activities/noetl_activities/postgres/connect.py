"""Opens the connections of the postgres tool and sink, with a credential.

Each call has a connection for itself, new or reset, with no state of other playbooks (settings, temporary tables, an
aborted transaction).

All arguments of a connection come from the credential or the playbook. The driver would read missing ones from
PGPASSWORD, ~/.pgpass, service files and client certificates. These belong to the worker, and a playbook may name any
host. So every argument is passed explicitly, and missing ones are an error.
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

from noetl_activities.credential_fields import first_field
from noetl_activities.credentials import credential_name
from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.postgres.dsn import DEFAULT_PORT, SETTINGS, DsnError, dsn_fields
from noetl_activities.postgres.errors import UnreachableError
from noetl_activities.postgres.pool import Connection, close_quietly, connection_pool
from noetl_activities.postgres.protocol import guard_logins, limit_received_bytes
from noetl_activities.postgres.times import set_time_codecs
from noetl_activities.postgres.tls import MODES, TlsContext, is_tls_refused, tls_contexts
from noetl_activities.postgres.types import TypeLimitedConnection
from noetl_activities.tool import Credential, Json, ToolContext
from noetl_activities.variables import DEFAULT_CREDENTIAL_VARIABLE

__all__ = ["CREDENTIAL_FIELDS", "Connection", "login_arguments", "open_connection", "open_connection_by_arguments"]

guard_logins()

MAX_RECEIVED_BYTES = 64 * 2**20
"""Maximum bytes that one call may receive. In memory, a result takes a multiple of that."""

_CONNECT_TIMEOUT = 15.0
_DSN_FIELDS = ("dsn", "connection_string", "url")
_FIELDS = {
    "host": ("db_host", "host"),
    "port": ("db_port", "port"),
    "user": ("db_user", "user", "username"),
    "password": ("db_password", "password"),
    "database": ("db_name", "database", "dbname"),
    "sslmode": ("sslmode", "ssl"),
    "sslrootcert": ("sslrootcert",),
}
_TASK_FIELDS = ("connection_string", "dsn", *(aliases[0] for aliases in _FIELDS.values()))
"""Fields with which a task sets the server and the account."""

CREDENTIAL_FIELDS = frozenset({*_DSN_FIELDS, *(alias for aliases in _FIELDS.values() for alias in aliases)})
"""Fields of a credential. A task that names a credential cannot set them."""

_SSL_FLAGS = {"true": "require", "false": "disable"}
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


@asynccontextmanager
async def open_connection(
    auth: Json,
    config: dict[str, Json],
    context: ToolContext,
    connect_timeout: float | None = None,
) -> AsyncGenerator[Connection]:
    """Open a connection for ``auth`` (a credential's name or fields), or for the ``connection_string`` or ``db_*``
    fields of the task; without any of these for the default credential of the deployment (semantics.md 31).

    ``connect_timeout`` in seconds. JSON columns are decoded, times are text. May return a pooled connection
    (pool.py). Raises CredentialError, asyncpg's errors and OSError.
    """
    try:
        async with open_connection_by_arguments(
            await login_arguments(auth, config, context), connect_timeout
        ) as connection:
            with limit_received_bytes(connection, MAX_RECEIVED_BYTES):
                yield connection
    except UnreachableError as error:
        raise error.with_credential(credential_name(_effective_auth(auth, config))) from error


async def login_arguments(auth: Json, config: dict[str, Json], context: ToolContext) -> dict[str, Any]:
    """Return the arguments of a connection. Calls with equal arguments may share one. Raises CredentialError,
    ConfigError.
    """
    effective_auth = _effective_auth(auth, config)
    if not effective_auth:
        raise CredentialError(
            "a postgres task needs auth: the name of a credential. For tasks without it, set "
            f"{DEFAULT_CREDENTIAL_VARIABLE} to a name for the worker"
        )
    extra_fields = sorted(name for name in CREDENTIAL_FIELDS if config.get(name))
    if extra_fields and credential_name(effective_auth) is not None:
        raise ConfigError(f"the task names a credential and also sets {', '.join(extra_fields)}: remove one of them")
    arguments = _arguments(await context.credential(effective_auth))
    if credential_name(effective_auth) is None and any(host.startswith("/") for host in arguments["host"].split(",")):
        raise ConfigError(
            "a playbook cannot connect to a Unix socket of Postgres, which may accept the worker's account without "
            "a password: register a credential for it, and name it in auth"
        )
    return arguments


def _effective_auth(auth: Json, config: dict[str, Json]) -> Json:
    if auth is not None:
        return auth
    task_fields = {name: config[name] for name in _TASK_FIELDS if config.get(name)}
    return config.get("credential") or task_fields or os.environ.get(DEFAULT_CREDENTIAL_VARIABLE)


@asynccontextmanager
async def open_connection_by_arguments(
    arguments: dict[str, Any], connect_timeout: float | None = None
) -> AsyncGenerator[Connection]:
    """Open a connection with the arguments that ``login_arguments`` returned; see ``open_connection``."""
    pool = connection_pool()
    async with pool.slots(arguments) if pool else nullcontext():
        connection = await pool.acquire(arguments) if pool else None
        if connection is None:
            connection = await _create_connection(arguments, connect_timeout)
        try:
            yield connection
        except BaseException:
            await close_quietly(connection)
            raise
        await (pool.release(arguments, connection) if pool else close_quietly(connection))


async def _create_connection(arguments: dict[str, Any], seconds: float | None) -> Connection:
    """Create a connection that decodes JSON and times. Raises UnreachableError."""
    try:
        connection = await _log_in(arguments, seconds or _CONNECT_TIMEOUT)
    except OSError as error:
        raise UnreachableError.from_error(_server_list(arguments), error) from error
    try:
        await _set_codecs(connection)
    except BaseException:
        await close_quietly(connection)
        raise
    return connection


async def _log_in(arguments: dict[str, Any], seconds: float) -> Connection:
    contexts = tls_contexts(arguments["sslmode"], arguments.get("sslrootcert"))
    for tls in contexts[:-1]:
        try:
            return await _connect_with_tls(arguments, tls, seconds)
        except OSError as error:
            if not is_tls_refused(error):
                raise
    return await _connect_with_tls(arguments, contexts[-1], seconds)


async def _connect_with_tls(arguments: dict[str, Any], tls: TlsContext, seconds: float) -> Connection:
    """Connect, passing every argument that asyncpg would otherwise read from the environment and the home folder.

    Prepared statements are not cached, because they are discarded between calls (pool.py).
    """
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


def _server_list(arguments: dict[str, Any]) -> str:
    """Return HOST:PORT of all servers, separated by commas. A single port applies to all hosts."""
    hosts, ports = arguments["host"].split(","), arguments["port"].split(",")
    return ", ".join(f"{host}:{ports[min(index, len(ports) - 1)]}" for index, host in enumerate(hosts))


def _arguments(credential: Credential) -> dict[str, Any]:
    """Return the arguments as strings, so that calls with equal arguments may share a connection."""
    dsn = first_field(credential, _DSN_FIELDS)
    try:
        fields = _credential_fields(credential) if dsn is None else dsn_fields(dsn)
    except DsnError as error:
        raise CredentialError(f"the DSN of this postgres credential is not valid: {error}") from None
    for name, field in (("host", "db_host (or dsn)"), ("user", "db_user")):
        if name not in fields:
            raise CredentialError(f"a postgres credential needs {field}")
    host, user = fields["host"], fields["user"]
    mode = fields.get("sslmode") or ("disable" if host in _LOCAL_HOSTS or host.startswith("/") else "prefer")
    if mode not in MODES:
        raise CredentialError(f"sslmode must be one of {', '.join(MODES)}")
    if not all(map(_is_port, fields.get("port", DEFAULT_PORT).split(","))):
        raise ConfigError("db_port must be a number up to 65535")
    return {"port": DEFAULT_PORT, "password": "", "database": user, **fields, "sslmode": mode}


def _is_port(text: str) -> bool:
    return text.isdecimal() and len(text) <= len("65535") and 0 < int(text) < 2**16


def _credential_fields(credential: Credential) -> dict[str, str]:
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


def _decode_json(text: str) -> Json:
    """Return the value of a JSON column. Raises ConfigError if Python cannot parse it."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"a json value of the result is not valid JSON: {error}") from None
    except ValueError:
        max_digits = sys.get_int_max_str_digits()
        raise ConfigError(
            f"a json value of the result has an integer of over {max_digits:,} digits: select it as text, or its other "
            "parts"
        ) from None


async def _set_codecs(connection: Connection) -> None:
    """Decode JSON columns as values, and times as text."""
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, encoder=json.dumps, decoder=_decode_json, schema="pg_catalog")
    await set_time_codecs(connection)
