"""The account of Postgres if the stack belongs to root, because Postgres refuses to run as root.

The kernel lets the processes of an account trace each other, enter each other's working folder and send each other
signals. So the server runs as a user id that no person, service or container uses, and that has no entry in
/etc/passwd. ``postgres`` needs no entry, but ``initdb`` does. ``initdb`` therefore runs as an account with an entry,
but with the server's group id: other processes of that account have another group, so the kernel denies them access.
Its files are then given to the server's account (``change_owner.py``).
"""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.process import Account

__all__ = ["ServerAccounts", "server_accounts"]

ACCOUNT_IDS = (0x71000000, 65533)
"""Ids for the account and group of the server; the first that this user namespace has is used.

0x71000000 (1895825408) is above the accounts of tasks (isolation/accounts.py) and above the ranges that systemd and
common Linux systems use. 65533 is for containers with only 65,536 ids: those systems assign no account this id either,
because it lies between systemd's last dynamic user (65519) and ``nobody`` (65534).
"""

NAMED_ACCOUNTS = ("nobody", "daemon")
"""Accounts for initdb, which nearly every system has. Earlier versions ran the server as the first that exists."""

PROC_SELF = Path("/proc/self")


class ServerAccounts(NamedTuple):
    """The accounts that Postgres runs as under root.

    ``other_owners`` are the other accounts that a cluster may belong to: those of earlier versions, and the rest of
    ACCOUNT_IDS. Such a cluster is given to ``server``.
    """

    server: Account
    initdb: Account
    other_owners: frozenset[int]


def server_accounts() -> ServerAccounts:
    """Return the accounts of this machine. Raises StackError."""
    named_ids = list(_named_account_ids())
    account_id = next(
        (number for number in ACCOUNT_IDS if all(_is_mapped(number, kind) for kind in ("uid", "gid"))), None
    )
    if not named_ids or account_id is None:
        missing = f"named {' or '.join(NAMED_ACCOUNTS)}" if not named_ids else " or ".join(map(str, ACCOUNT_IDS))
        raise StackError(f"Postgres does not run as root and there is no account {missing}: run noetl as another user")
    other_owners = {*named_ids, *ACCOUNT_IDS} - {account_id}
    return ServerAccounts(Account(account_id, account_id), Account(named_ids[0], account_id), frozenset(other_owners))


def _named_account_ids() -> Iterator[int]:
    for name in NAMED_ACCOUNTS:
        try:
            yield pwd.getpwnam(name).pw_uid
        except KeyError:
            continue


def _is_mapped(number: int, kind: str) -> bool:
    """Whether this user namespace has the account (``uid``) or the group (``gid``)."""
    try:
        rows = [[int(field) for field in line.split()] for line in (PROC_SELF / f"{kind}_map").read_text().splitlines()]
    except FileNotFoundError:
        return True
    return any(first <= number < first + count for first, _, count in rows)
