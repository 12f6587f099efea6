"""The addresses of a running stack, in ``stack.json``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import quote

import msgspec

from noetl_activities.variables import (
    CREDENTIAL_PREFIX,
    DEFAULT_CREDENTIAL_VARIABLE,
    DSN_VARIABLE,
    HTTP_ALLOW_VARIABLE,
    STACK_PORTS_VARIABLE,
    TEMPORAL_ADDRESS_VARIABLE,
)
from noetl_temporal.environment import SIGNING_KEY_VARIABLE
from noetl_temporal.queues import TOOL_QUEUES_VARIABLE
from noetl_temporal.stack.files import read_text, write_atomically
from noetl_temporal.stack.home import Mode

__all__ = ["Addresses", "without_password"]

PLAYBOOK_CREDENTIALS = ("pg_local", "pg_k8s", "test_postgres")
"""The names of the credential for the playbooks' database."""

LOG_CREDENTIAL = "pg_noetl_k8s"
"""The name of the credential that reads the event log."""

LOOPBACK = "localhost,127.0.0.0/8,::1"

SESSION_SETTINGS = " ".join(
    f"-c {setting}"
    for setting in (
        'search_path="$user",public',
        "role=none",
        "statement_timeout=0",
        "transaction_timeout=0",
        "lock_timeout=0",
        "idle_in_transaction_session_timeout=0",
        "idle_session_timeout=0",
        "default_transaction_read_only=off",
        "default_transaction_isolation=read\\ committed",
        "default_transaction_deferrable=off",
        "default_tablespace=",
        "temp_tablespaces=",
        "default_table_access_method=heap",
        "row_security=on",
        "check_function_bodies=on",
        "standard_conforming_strings=on",
        "backslash_quote=safe_encoding",
        "array_nulls=on",
        "transform_null_equals=off",
        "quote_all_identifiers=off",
        "bytea_output=hex",
        "xmloption=content",
        "xmlbinary=base64",
        "lc_monetary=C",
        "lc_numeric=C",
        "lc_time=C",
        "DateStyle=ISO,MDY",
        "IntervalStyle=postgres",
        "TimeZone=UTC",
        "timezone_abbreviations=Default",
        "extra_float_digits=1",
        "default_text_search_config=pg_catalog.simple",
        "local_preload_libraries=",
        "synchronous_commit=on",
        "client_connection_check_interval=0",
    )
)
"""Settings of every login to the playbooks' database. All playbooks share one account, and an account can change its
own defaults (ALTER ROLE); settings of the login override them.
"""

DEDICATED_QUEUES = "python,shell"
"""The tools that have their own queues. All other tools share one queue with the workflows, so that their calls start
immediately: calls of python and shell may take long, and many of them would delay the others.
"""


class Addresses(msgspec.Struct, frozen=True):
    """The addresses, accounts and passwords of a running stack.

    ``owner_pid`` is the process that owns the stack. ``temporal`` is HOST:PORT, ``ui`` a URL. ``ports`` are all TCP
    ports on which the servers listen, including those that Temporal chooses itself: a client that reaches one of them
    controls the stack. ``socket_folder`` is the folder of Postgres's Unix socket. ``credentials`` is the value of
    NOETL_CREDENTIALS when the stack started.
    """

    owner_pid: int
    mode: Mode
    temporal: str
    temporal_pid: int
    ui: str
    ports: tuple[int, ...]
    socket_folder: str
    postgres_port: int
    postgres_password: str
    playbooks_password: str
    reader_password: str
    signing_key_file: str
    credentials: str = ""

    @property
    def postgres(self) -> str:
        """The DSN of the event log's database over the Unix socket. Its account is the superuser."""
        return f"postgresql://noetl:{self.postgres_password}@{quote(self.socket_folder, '')}:{self.postgres_port}/noetl"

    @property
    def postgres_tcp(self) -> str:
        """The same DSN over TCP, for programs that do not support Unix sockets."""
        return f"postgresql://noetl:{self.postgres_password}@127.0.0.1:{self.postgres_port}/noetl"

    @property
    def temporal_port(self) -> int:
        """The port of Temporal's frontend."""
        return int(self.temporal.rpartition(":")[2])

    @property
    def playbooks(self) -> str:
        """The DSN of the playbooks' database over TCP. Its account cannot connect to another database."""
        return f"postgresql://playbooks:{self.playbooks_password}@127.0.0.1:{self.postgres_port}/playbooks"

    def environment(self) -> dict[str, str]:
        """Return the environment variables that connect a client, a worker or a mirror to this stack.

        Tools may call servers on this machine. Variables that are already set keep their values, except those that
        locate the stack.
        """
        playbooks = self._login("playbooks", self.playbooks_password, "playbooks", options=SESSION_SETTINGS)
        defaults = {_variable(name): playbooks for name in PLAYBOOK_CREDENTIALS}
        defaults[_variable(LOG_CREDENTIAL)] = self._login("reader", self.reader_password, "noetl")
        defaults[DEFAULT_CREDENTIAL_VARIABLE] = PLAYBOOK_CREDENTIALS[0]
        defaults[HTTP_ALLOW_VARIABLE] = LOOPBACK
        defaults[TOOL_QUEUES_VARIABLE] = DEDICATED_QUEUES
        variables = {name: os.environ.get(name, value) for name, value in defaults.items()}
        environment = {
            TEMPORAL_ADDRESS_VARIABLE: self.temporal,
            DSN_VARIABLE: self.postgres,
            SIGNING_KEY_VARIABLE: self.signing_key_file,
            STACK_PORTS_VARIABLE: ",".join(map(str, self.ports)),
        }
        return {**environment, **variables}

    def _login(self, user: str, password: str, database: str, **settings: str) -> str:
        login = {
            "type": "postgres",
            "db_host": self.socket_folder,
            "db_port": self.postgres_port,
            "db_user": user,
            "db_password": password,
            "db_name": database,
            **settings,
        }
        return json.dumps(login)

    def write(self, path: Path) -> None:
        """Write the addresses to ``path`` atomically; only the owner can read them, because they contain passwords."""
        write_atomically(path, msgspec.json.encode(self).decode())

    @classmethod
    def read(cls, path: Path) -> Addresses | None:
        """Return the addresses stored at ``path``; None if the file is missing or invalid. Raises UnsafeFileError."""
        try:
            return msgspec.json.decode(read_text(path), type=cls)
        except (FileNotFoundError, msgspec.DecodeError):
            return None


def without_password(dsn: str) -> str:
    """Return the DSN without its password."""
    user, _, remainder = dsn.removeprefix("postgresql://").partition(":")
    return f"postgresql://{user}@{remainder.partition('@')[2]}"


def _variable(credential: str) -> str:
    return f"{CREDENTIAL_PREFIX}{credential.upper()}"
