"""The configuration and access files of a cluster, overwritten before every start.

All settings are on the command line (postgres.py), and the configuration files are emptied, so earlier contents
(``archive_command``, ``restore_command``, a log collector, libraries to load) have no effect.

The accounts ``playbooks`` and ``reader`` can connect to one database each. On the Unix socket, whose folder only the
owner of the stack can enter, the kernel identifies the client (``peer``): an account of Postgres can always change its
own password, so a playbook could break a login by password. Other clients need a password (SCRAM).
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

__all__ = ["check_cluster_folder", "check_version", "write_cluster_files"]

NOTE = "# noetl writes this file before every start; its settings are on the command line\n"

ACCESS_RULES = """\
local  playbooks  playbooks                    peer map=owner
local  noetl      reader                       peer map=owner
host   playbooks  playbooks      127.0.0.1/32  scram-sha-256
host   noetl      reader         127.0.0.1/32  scram-sha-256
local  all        playbooks,reader             reject
host   all        playbooks,reader  all        reject
local  all        all                          scram-sha-256
host   all        all            127.0.0.1/32  scram-sha-256
"""

RECOVERY_FILES = ("standby.signal", "recovery.signal")


def check_cluster_folder(folder: Path, location: PostgresLocation) -> None:
    """Raise StackError if ``folder`` is a link, or belongs to an account that does not run Postgres."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise StackError(f"{folder} is not a folder: remove it")
    accounts = location.accounts
    owners = {os.geteuid()} if accounts is None else {accounts.server.uid, accounts.initdb.uid}
    if status.st_uid not in owners:
        raise StackError(f"{folder} belongs to another user: run noetl as that user, or remove it")


def check_version(data: Path) -> None:
    """Raise StackError if another version of Postgres created the cluster. A missing PG_VERSION is left to Postgres."""
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(data / "PG_VERSION", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor) as file:
            version = int(file.read(20))
        if version != int(MAJOR):
            raise StackError(
                f"{data} was created by Postgres {version}, and this is Postgres {MAJOR}, which cannot read it: use "
                "the version of noetl that created it, or remove the stack with all its runs (`noetl dev rm`)"
            )


def write_cluster_files(data: Path, location: PostgresLocation) -> None:
    """Write the files into the data folder, whose server must not be running."""
    for name in RECOVERY_FILES:
        (data / name).unlink(missing_ok=True)
    owner = pwd.getpwuid(os.geteuid()).pw_name
    ident_map = "".join(f'owner  "{owner}"  {account}\n' for account in ("playbooks", "reader"))
    texts = {
        "postgresql.conf": NOTE,
        "postgresql.auto.conf": NOTE,
        "pg_hba.conf": NOTE + ACCESS_RULES,
        "pg_ident.conf": NOTE + ident_map,
    }
    for name, text in texts.items():
        replace_file(data / name, text, location.give_to_server)
