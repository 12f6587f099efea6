"""The configuration and access files of a cluster, which are written before every start and never read.

All settings are on the command line (postgres.py), so the files of settings are empty: whatever they contained
(``archive_command``, ``restore_command``, a log collector, libraries to load) has no effect.

Access is one list. The accounts of playbooks and readers can connect to one database each. On the Unix socket, whose
folder only the stack's owner can enter, the kernel identifies the client (``peer``): an account of Postgres can always
change its own password, so a playbook could break a login by password. Other clients need a password, with SCRAM.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from pathlib import Path

from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.files import replace_file
from noetl_temporal.stack.postgres_location import MAJOR, PostgresLocation

__all__ = ["check_version", "checked_folder", "write_cluster_files"]

NOTE = "# noetl writes this file before every start; its settings are on the command line\n"

LOGINS = """\
local  playbooks  playbooks                    peer map=owner
local  noetl      reader                       peer map=owner
host   playbooks  playbooks      127.0.0.1/32  scram-sha-256
host   noetl      reader         127.0.0.1/32  scram-sha-256
local  all        playbooks,reader             reject
host   all        playbooks,reader  all        reject
local  all        all                          scram-sha-256
host   all        all            127.0.0.1/32  scram-sha-256
"""

RECOVERY = ("standby.signal", "recovery.signal")


def checked_folder(folder: Path, where: PostgresLocation) -> None:
    """Raises StackError where ``folder`` is a link, or of an account that Postgres neither runs nor ran as."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise StackError(f"{folder} is not a folder: remove it")
    owners = {where.accounts.server.uid, *where.accounts.former} if where.accounts else {os.geteuid()}
    if status.st_uid not in owners:
        raise StackError(f"{folder} belongs to another user: run noetl as that user, or remove it")


def check_version(data: Path) -> None:
    """Raises StackError where another version of Postgres has made the cluster. If it names no version, Postgres
    decides.
    """
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(data / "PG_VERSION", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor) as file:
            made = int(file.read(20))
        if made != int(MAJOR):
            raise StackError(
                f"{data} was created by Postgres {made}, and this is Postgres {MAJOR}, which cannot read it: use the "
                "version of noetl that made it, or remove the stack with all its runs (`noetl dev rm`)"
            )


def write_cluster_files(data: Path, where: PostgresLocation) -> None:
    """Replace them in the folder ``data``, whose server does not run."""
    for name in RECOVERY:
        (data / name).unlink(missing_ok=True)
    owner = pwd.getpwuid(os.geteuid()).pw_name
    mapped = "".join(f'owner  "{owner}"  {account}\n' for account in ("playbooks", "reader"))
    texts = {
        "postgresql.conf": NOTE,
        "postgresql.auto.conf": NOTE,
        "pg_hba.conf": NOTE + LOGINS,
        "pg_ident.conf": NOTE + mapped,
    }
    for name, text in texts.items():
        replace_file(data / name, text, where.own)
