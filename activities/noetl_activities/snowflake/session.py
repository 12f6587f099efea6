"""A Snowflake session. The driver is synchronous, so each session has its own thread.

The login comes only from a credential. For missing arguments, the driver would read configuration files and the
environment of the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, TypeVar

from noetl_activities.credentials import credential_name
from noetl_activities.errors import ConfigError, CredentialError, FailedError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Credential, Json, ToolContext
from noetl_compiler.language.error_kinds import sql_kind

__all__ = ["LOGIN", "Session", "open_session"]

Result = TypeVar("Result")

_DRIVER = "snowflake.connector"
_LOGIN_SECONDS = 30
_CLOSE_SECONDS = 10.0
_MAX_MESSAGE_CHARS = 2_000
_LOGIN_ERRORS = range(390100, 390200)
"""Error numbers of Snowflake's authenticators."""

LOGIN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "account": ("sf_account", "account"),
        "user": ("sf_user", "user", "username"),
        "password": ("sf_password", "password"),
        "role": ("sf_role", "role"),
        "warehouse": ("sf_warehouse", "warehouse"),
        "database": ("sf_database", "database"),
        "schema": ("sf_schema", "schema"),
        "host": ("sf_host", "host"),
        "port": ("sf_port", "port"),
        "protocol": ("sf_protocol", "protocol"),
    }
)
"""Argument of the driver -> the fields of a credential for it."""

_TASK_FIELDS = ("role", "warehouse", "database", "schema")
"""Fields that a task may set, unlike the account and the user."""


class Session:
    """One connection. Its calls run one after the other in its thread."""

    def __init__(self, arguments: Mapping[str, Any], context: ToolContext) -> None:
        self._arguments = arguments
        self._context = context
        self._thread = ThreadPoolExecutor(1, "snowflake")
        self._connection: Any = None

    async def call(self, use: Callable[[Any], Result]) -> Result:
        """Return the result of ``use(connection)``. Raises FailedError. Cancellation ends the query."""
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._thread, self._call_in_thread, use)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await self._stop(future)
            raise

    async def close(self) -> None:
        """End the session. If that takes too long, its thread continues in the background."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.to_thread(self._close)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _call_in_thread(self, use: Callable[[Any], Result]) -> Result:
        driver: Any = import_module(_DRIVER)
        try:
            if self._connection is None:
                self._connection = driver.connect(**self._arguments)
            return use(self._connection)
        except driver.errors.Error as error:
            raise FailedError(_error_outcome(error, driver.errors, self._context)) from error

    async def _stop(self, future: asyncio.Future[Any]) -> None:
        """Close the connection, which ends its query."""
        await self.close()
        await asyncio.wait([future], timeout=_CLOSE_SECONDS)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()


@contextlib.asynccontextmanager
async def open_session(auth: Json, config: Mapping[str, Json], context: ToolContext) -> AsyncGenerator[Session]:
    """Open a session. Raises ConfigError, CredentialError; FailedError for errors of the driver."""
    if credential_name(auth) is None:
        raise CredentialError("a snowflake task needs auth: the name of a credential of type snowflake")
    if find_spec("snowflake") is None or find_spec(_DRIVER) is None:
        raise ConfigError(
            'the driver of Snowflake is not installed on the worker: pip install "noetl-temporal[snowflake]"'
        )
    snowflake = Session(_arguments(await context.credential(auth), config), context)
    try:
        yield snowflake
    finally:
        await snowflake.close()


def _arguments(credential: Credential, config: Mapping[str, Json]) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        name: next((credential[field] for field in fields if credential.get(field)), None)
        for name, fields in LOGIN.items()
    }
    for name in ("account", "user", "password"):
        if not arguments[name]:
            raise CredentialError(f"a credential of type snowflake needs {LOGIN[name][0]}")
    task_fields = {name: config[name] for name in _TASK_FIELDS if config.get(name)}
    present = {name: value for name, value in {**arguments, **task_fields}.items() if value is not None}
    return {**present, "login_timeout": _LOGIN_SECONDS, "client_session_keep_alive": False}


def _error_outcome(error: Any, errors: Any, context: ToolContext) -> Outcome:
    message = context.truncate(" ".join(str(error.msg or error).split()), _MAX_MESSAGE_CHARS)
    state, number = str(error.sqlstate or ""), error.errno
    if number in _LOGIN_ERRORS or isinstance(error, errors.ForbiddenError):
        kind = "auth"
    elif isinstance(error, errors.ProgrammingError):
        kind = sql_kind(state)
    else:
        kind = "connection"
    return Outcome("error", error=ErrorInfo(kind, message, str(number)))
