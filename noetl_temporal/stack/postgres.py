"""The Postgres of a stack. Programs of the stack use its Unix socket, people and playbooks its port on the loopback.

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
from noetl_temporal.stack.cluster_files import check_cluster_folder, check_version, write_cluster_files
from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.leftovers import end_processes_in
from noetl_temporal.stack.postgres_location import PostgresLocation, locate_postgres
from noetl_temporal.stack.process import Server, start
from noetl_temporal.stack.server_environment import server_environment

__all__ = ["start_postgres"]

DATA_FOLDER = "data"
DRAFT_FOLDER = "data.new"

# From archive_mode on, these are the defaults of Postgres, set here so that nothing can override them.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "default_text_search_config": "pg_catalog.english",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "event_triggers": "off",  # a login trigger would run as its owner, not as the user who logs in
    "archive_mode": "off",
    "restore_command": "",
    "logging_collector": "off",
    "shared_preload_libraries": "",
    "session_preload_libraries": "",
    "local_preload_libraries": "",
}

RunToEnd = Callable[[Server], None]
"""Starts a program and returns when it has ended. The program ends if this process dies."""


def start_postgres(home: Home, port: int, socket_folder: Path, run_to_end: RunToEnd) -> Server:
    """Start the server, which waits for ``Server.release``; create its cluster if there is none.

    ``socket_folder`` is the folder of its Unix socket. Raises StackError.
    """
    location, data = locate_postgres(), home.postgres_folder / DATA_FOLDER
    try:
        if not os.path.lexists(data):
            _create_cluster(location, home, run_to_end)
        check_cluster_folder(data, location)
        check_version(data)
        # This process holds the owner's lock and has ended all leftovers, so no server uses the data.
        end_processes_in(data)
        (data / "postmaster.pid").unlink(missing_ok=True)
        write_cluster_files(data, location)
    except PermissionError as error:
        raise StackError(f"{data} belongs to another user: run noetl as that user, or remove {home.root}") from error
    socket_setting = (
        f"unix_socket_directories={socket_folder}"  # a setting that accounts without privileges cannot read
    )
    command: list[str | Path] = [
        location.binaries / "postgres",
        "-D",
        location.path_for_server(data),
        "-p",
        str(port),
        "-c",
        socket_setting,
    ]
    for name, value in SETTINGS.items():
        command += ["-c", f"{name}={value}"]
    return start(
        "Postgres",
        command,
        home.log("postgres"),
        marker=socket_setting,
        account=location.account,
        environment=server_environment(home),
        inherits_environment=False,
        folder=data,
    )


def _create_cluster(location: PostgresLocation, home: Home, run_to_end: RunToEnd) -> None:
    draft = home.postgres_folder / DRAFT_FOLDER
    if os.path.lexists(draft):
        check_cluster_folder(draft, location)
        end_processes_in(draft)
        shutil.rmtree(draft)
    draft.mkdir(mode=0o700, parents=True)
    location.give_to_initdb(draft)
    with tempfile.TemporaryFile("w") as password_file:  # it has no name, so no other process can open it
        password_file.write(home.password("postgres"))
        password_file.seek(0)
        location.give_to_initdb(password_file.fileno())
        run_to_end(_initdb(location, home, draft, password_file.fileno()))
    if location.accounts:
        change_owner(draft, location.accounts.initdb.uid, location.accounts.server)
    draft.rename(home.postgres_folder / DATA_FOLDER)


def _initdb(location: PostgresLocation, home: Home, draft: Path, password_file: int) -> Server:
    options = [
        "-D",
        location.path_for_server(draft),
        "-U",
        "noetl",
        "-A",
        "scram-sha-256",
        f"--pwfile=/dev/fd/{password_file}",
    ]
    options += ["-E", "UTF8", "--locale=C", "--no-sync"]
    # No option of initdb identifies its stack, so the marker is an argument of the shell that runs it.
    marker = f"noetl.home={home.root}"
    return start(
        "initdb",
        ["/bin/sh", "-c", '"$@"; exit $?', marker, location.binaries / "initdb", *options],
        home.log("postgres"),
        marker,
        account=location.initdb_account,
        environment=server_environment(home),
        inherits_environment=False,
        folder=draft,
        inherited_files=(password_file,),
        is_service=True,
    )
