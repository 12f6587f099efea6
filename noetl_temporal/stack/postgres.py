"""A Postgres of this folder's own, on the loopback, with a password.

The cluster is made under another name and renamed when whole, so a first start that is interrupted starts
over.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.postgres_place import Place, place
from noetl_temporal.stack.process import Account, Server, start

__all__ = ["postgres_ready", "start_postgres"]


def start_postgres(home: Home, port: int) -> Server:
    """Start the server, making its data first when there is none. Raises StackError."""
    where = place(home)
    if not (where.data / "PG_VERSION").exists():
        _create(where, home.password())
    # This folder's lock is held and leftovers are ended: no server has this data, whatever a stale file says.
    (where.data / "postmaster.pid").unlink(missing_ok=True)
    command: list[str | Path] = [where.binaries / "postgres", "-D", where.data, "-p", str(port)]
    for setting in ("listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200"):
        command += ["-c", setting]
    return start("Postgres", command, home.log("postgres"), marker=str(where.data), account=where.account)


def postgres_ready(home: Home, port: int) -> bool:
    """Whether the server accepts connections."""
    probe = place(home).binaries / "pg_isready"
    asked = subprocess.run([probe, "-q", "-h", "127.0.0.1", "-p", str(port)], check=False)
    return asked.returncode == 0


def _create(where: Place, password: str) -> None:
    draft = where.data.with_name("data.new")
    shutil.rmtree(draft, ignore_errors=True)
    secret = where.data.with_name("password.new")
    secret.touch(mode=0o600)
    secret.write_text(password)
    if where.account:
        os.chown(secret, *where.account)
    options = [
        "-U",
        "noetl",
        "-A",
        "scram-sha-256",
        f"--pwfile={secret}",
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
    ]
    _run([where.binaries / "initdb", "-D", draft, *options], where.account)
    secret.unlink()
    _run(
        [where.binaries / "postgres", "--single", "-D", draft, "postgres"],
        where.account,
        "CREATE DATABASE noetl\n",
    )
    draft.rename(where.data)


def _run(command: list[str | Path], account: Account | None, text: str | None = None) -> None:
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
    if done.returncode != 0:
        raise StackError(f"the embedded Postgres cannot be set up:\n{done.stderr.strip()}")
