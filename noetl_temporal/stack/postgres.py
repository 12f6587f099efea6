"""A Postgres of this stack's own: a Unix socket for the stack's programs, and a port on the loopback for people.

The cluster is created under a temporary name and renamed when it is complete, so an interrupted first start is
repeated.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from noetl_temporal.stack.change_owner import change_owner
from noetl_temporal.stack.cluster_files import check_version, checked_folder, write_cluster_files
from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.leftovers import end_processes_in
from noetl_temporal.stack.postgres_location import PostgresLocation, place
from noetl_temporal.stack.process import Server, start
from noetl_temporal.stack.server_environment import server_environment

__all__ = ["start_postgres"]

DRAFT = "data.new"
FORMER = "data.former"

# Those of the second group are defaults, said so that nothing else can say otherwise.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "default_text_search_config": "pg_catalog.english",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "event_triggers": "off",  # one for logins runs as its owner, not as the user who logs in
    "archive_mode": "off",
    "restore_command": "",
    "logging_collector": "off",
    "shared_preload_libraries": "",
    "session_preload_libraries": "",
    "local_preload_libraries": "",
}

Complete = Callable[[Server], None]
"""Starts a program and returns when it has ended. The program ends if this process dies."""


def start_postgres(home: Home, port: int, sockets: Path, complete: Complete) -> Server:
    """Start the server, held; its data is made first when there is none. ``sockets`` is the folder of its Unix socket.

    Raises StackError."""
    where, data = place(), home.postgres / "data"
    try:
        _change_former_owner(where, home, data)
        if not os.path.lexists(data):
            _create(where, home, complete)
        checked_folder(data, where)
        check_version(data)
        # This folder's lock is held and leftovers are ended: no server has this data, whatever a stale file says.
        end_processes_in(data)
        (data / "postmaster.pid").unlink(missing_ok=True)
        write_cluster_files(data, where)
    except PermissionError as error:
        raise StackError(f"{data} belongs to another user: run noetl as that user, or remove {home.root}") from error
    socket = f"unix_socket_directories={sockets}"  # unlike other settings, an account without rights cannot read it
    command: list[str | Path] = [where.binaries / "postgres", "-D", where.name_of(data), "-p", str(port), "-c", socket]
    for name, value in SETTINGS.items():
        command += ["-c", f"{name}={value}"]
    return start(
        "Postgres",
        command,
        home.log("postgres"),
        marker=socket,
        account=where.account,
        environment=server_environment(home),
        inherits=False,
        folder=data,
    )


def _change_former_owner(where: PostgresLocation, home: Home, data: Path) -> None:
    """Give the server a cluster that an earlier version ran as another account; until that is complete, the folder's
    name shows it.
    """
    former = home.postgres / FORMER
    if where.accounts is None:
        return
    if not os.path.lexists(former):
        if not os.path.lexists(data) or data.lstat().st_uid not in where.accounts.former:
            return
        checked_folder(data, where)
        end_processes_in(data)
        data.rename(former)
    change_owner(former, where.accounts.former, where.accounts.server)
    former.rename(data)


def _create(where: PostgresLocation, home: Home, complete: Complete) -> None:
    draft = home.postgres / DRAFT
    if os.path.lexists(draft):
        checked_folder(draft, where)
        end_processes_in(draft)
        shutil.rmtree(draft)
    draft.mkdir(mode=0o700, parents=True)
    where.own_for_initdb(draft)
    with tempfile.TemporaryFile("w") as secret:  # without a name: no other process opens it
        secret.write(home.password("postgres"))
        secret.seek(0)
        where.own_for_initdb(secret.fileno())
        complete(_initdb(where, home, draft, secret.fileno()))
    if where.accounts:
        change_owner(draft, where.accounts.former, where.accounts.server)
    draft.rename(home.postgres / "data")


def _initdb(where: PostgresLocation, home: Home, draft: Path, password: int) -> Server:
    options = ["-D", where.name_of(draft), "-U", "noetl", "-A", "scram-sha-256", f"--pwfile=/dev/fd/{password}"]
    options += ["-E", "UTF8", "--locale=C", "--no-sync"]
    # It has no option that distinguishes it from that of another folder; the shell in front of it has.
    marker = f"noetl.home={home.root}"
    server = start(
        "initdb",
        ["/bin/sh", "-c", '"$@"; exit $?', marker, where.binaries / "initdb", *options],
        home.log("postgres"),
        marker,
        account=where.initdb_account,
        environment=server_environment(home),
        inherits=False,
        folder=draft,
        files=(password,),
    )
    return server._replace(service=True)
