"""The accounts that run Postgres if the stack belongs to root, because Postgres refuses to run as root.

The kernel lets the processes of an account trace each other, enter each other's working folder and send each other
signals. So the server runs with a user id that no person, service or container uses, and that has no entry in
/etc/passwd. ``initdb`` needs an entry, so it runs as another account that has one, with the server's group id: the
kernel then denies access to other processes of that account, because their group differs. The files that it creates
are then given to the server's account (``change_owner.py``).
"""

from __future__ import annotations

import pwd
from pathlib import Path
from typing import NamedTuple

from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.process import Account

__all__ = ["ServerAccounts", "server_accounts"]

SERVER_IDS = (0x71000000, 65533)
"""The ids for the user and the group of the server; the first that this user namespace maps is used.

0x71000000 (1895825408) is above the accounts of tasks (isolation/accounts.py) and above the ranges that systemd and
common Linux systems use. 65533 is for containers with only 65,536 ids. No common system assigns it, because it lies
between systemd's last dynamic user (65519) and ``nobody`` (65534).
"""

INITDB_ACCOUNTS = ("nobody", "daemon")
"""The names of accounts for initdb; the first that exists is used."""

PROC_SELF = Path("/proc/self")


class ServerAccounts(NamedTuple):
    """The accounts that run the programs of Postgres for root."""

    server: Account
    initdb: Account


def server_accounts() -> ServerAccounts:
    """Return the accounts of this machine. Raises StackError."""
    server_id = next((number for number in SERVER_IDS if _is_mapped(number, "uid") and _is_mapped(number, "gid")), None)
    initdb_uid = next(filter(None, map(_uid_of, INITDB_ACCOUNTS)), None)
    if initdb_uid is None:
        raise _missing_account(f"named {' or '.join(INITDB_ACCOUNTS)}")
    if server_id is None:
        raise _missing_account(" or ".join(map(str, SERVER_IDS)))
    return ServerAccounts(Account(server_id, server_id), Account(initdb_uid, server_id))


def _missing_account(description: str) -> StackError:
    return StackError(f"Postgres does not run as root and there is no account {description}: run noetl as another user")


def _uid_of(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _is_mapped(number: int, kind: str) -> bool:
    """Whether this user namespace maps ``number``; ``kind``: uid or gid."""
    try:
        rows = [[int(field) for field in line.split()] for line in (PROC_SELF / f"{kind}_map").read_text().splitlines()]
    except FileNotFoundError:
        return True
    return any(first <= number < first + count for first, _, count in rows)
