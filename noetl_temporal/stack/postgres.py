"""A Postgres of this folder's own, on the loopback, with a password.

The cluster is made under another name and renamed when whole, so a first start that is interrupted starts over.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.postgres_place import Place, place
from noetl_temporal.stack.process import Server, start

__all__ = ["postgres_ready", "start_postgres"]

SETTINGS = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200")


def start_postgres(home: Home, port: int) -> Server:
    """Start the server, making its data first when there is none. Raises StackError."""
    where, data = place(), home.postgres / "data"
    try:
        if not data.exists():
            _create(where, home)
        # This folder's lock is held and leftovers are ended: no server has this data, whatever a stale file says.
        (data / "postmaster.pid").unlink(missing_ok=True)
    except PermissionError as error:
        raise StackError(f"{data} belongs to another user: run noetl as that user, or remove {home.root}") from error
    marker = f"noetl.home={home.root}"
    command: list[str | Path] = [where.binaries / "postgres", "-D", where.name_of(data), "-p", str(port)]
    for setting in (*SETTINGS, marker):
        command += ["-c", setting]
    return start("Postgres", command, home.log("postgres"), marker, account=where.account, folder=data)


def postgres_ready(port: int) -> bool:
    """Whether the server accepts connections."""
    asked = subprocess.run([place().binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], check=False)
    return asked.returncode == 0


def _create(where: Place, home: Home) -> None:
    draft = home.postgres / "data.new"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700, parents=True)
    where.own(draft)
    name = where.name_of(draft)
    with (home.postgres / "password.new").open("w+") as secret:
        where.own(Path(secret.name))
        secret.write(home.password())
        secret.flush()
        options = ["-U", "noetl", "-A", "scram-sha-256", f"--pwfile=/dev/fd/{secret.fileno()}"]
        options += ["-E", "UTF8", "--locale=C", "--no-sync"]
        _run([where.binaries / "initdb", "-D", name, *options], where, draft, keep=secret.fileno())
    Path(secret.name).unlink()
    _run([where.binaries / "postgres", "--single", "-D", name, "postgres"], where, draft, "CREATE DATABASE noetl\n")
    draft.rename(home.postgres / "data")


def _run(command: list[str | Path], where: Place, folder: Path, text: str = "", keep: int | None = None) -> None:
    account = where.account
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        pass_fds=() if keep is None else (keep,),
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        env={**os.environ, "LC_ALL": "C"},
    )
    if done.returncode != 0:
        raise StackError(f"the embedded Postgres cannot be set up:\n{done.stderr.strip()}")
