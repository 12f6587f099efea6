"""A Postgres of this folder's own, on the loopback, with a password.

The cluster is made under another name and renamed when whole, so a first start that is interrupted starts over.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.files import write_whole
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.leftovers import end_processes_in
from noetl_temporal.stack.postgres_place import Place, place
from noetl_temporal.stack.process import Server, start

__all__ = ["start_postgres"]

SETTINGS = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200")
DRAFT = "data.new"

Complete = Callable[[Server], None]
"""Lets a program begin and returns when it has ended; whoever does it ends it should this process die."""


def start_postgres(home: Home, port: int, complete: Complete) -> Server:
    """Start the server, held; its data is made first when there is none. Raises StackError."""
    where, data = place(), home.postgres / "data"
    try:
        if not data.exists():
            _create(where, home, complete)
        # This folder's lock is held and leftovers are ended: no server has this data, whatever a stale file says.
        end_processes_in(data)
        (data / "postmaster.pid").unlink(missing_ok=True)
    except PermissionError as error:
        raise StackError(f"{data} belongs to another user: run noetl as that user, or remove {home.root}") from error
    marker = _marker(home)
    command: list[str | Path] = [where.binaries / "postgres", "-D", where.name_of(data), "-p", str(port)]
    for setting in (*SETTINGS, marker):
        command += ["-c", setting]
    return start("Postgres", command, home.log("postgres"), marker, account=where.account, folder=data)


def _marker(home: Home) -> str:
    return f"noetl.home={home.root}"


def _create(where: Place, home: Home, complete: Complete) -> None:
    draft = home.postgres / DRAFT
    if draft.exists():
        end_processes_in(draft)
        shutil.rmtree(draft)
    draft.mkdir(mode=0o700, parents=True)
    where.own(draft)
    secret = home.postgres / "password.new"
    write_whole(secret, home.password("postgres"))
    where.own(secret)
    try:
        # The account that runs it may not reach the folder of the password: the file is opened here.
        with secret.open() as file:
            complete(_initdb(where, home, draft, file.fileno()))
    finally:
        secret.unlink()
    draft.rename(home.postgres / "data")


def _initdb(where: Place, home: Home, draft: Path, password: int) -> Server:
    options = ["-D", where.name_of(draft), "-U", "noetl", "-A", "scram-sha-256", f"--pwfile=/dev/fd/{password}"]
    options += ["-E", "UTF8", "--locale=C", "--no-sync"]
    # It has no option to be told from another folder's by; the shell in front of it has.
    command = ["/bin/sh", "-c", '"$@"; exit $?', _marker(home), str(where.binaries / "initdb"), *options]
    log = home.log("postgres")
    server = start("initdb", command, log, _marker(home), account=where.account, folder=draft, files=(password,))
    return server._replace(service=True)
