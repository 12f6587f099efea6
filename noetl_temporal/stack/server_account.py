"""The account of Postgres if the stack belongs to root, because Postgres refuses to run as root.

The kernel lets every process of an account trace the others, enter their working directory and send them signals. So
the account is a number that no person, service or container uses and that has no entry in /etc/passwd. ``postgres``
does not look for one; ``initdb`` does. It therefore runs as an account that has one, but with the group of ours: other
processes of that account have another group, so the kernel keeps them out. What it has made is given to our account
(``change_owner.py``).
"""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.process import Account

__all__ = ["ServerAccounts", "server_accounts"]

OWN = (0x71000000, 65533)
"""Account ids for servers; the first that exists is used. 1895825408 is above the accounts of tasks
(isolation/accounts.py) and outside the ranges of systemd and common Linux systems; so is 65533, which also exists in a
container with only 65,536 accounts."""

WITH_ENTRY = ("nobody", "daemon")
"""Names that nearly every system has; Postgres ran as the first of them once."""

PROC = Path("/proc/self")


class ServerAccounts(NamedTuple):
    """The accounts that Postgres runs as under root.

    ``former`` are the accounts from which a cluster is taken over.
    """

    server: Account
    initdb: Account
    former: frozenset[int]


def server_accounts() -> ServerAccounts:
    """Return the accounts of this machine. Raises StackError."""
    named = list(_named())
    own = next((number for number in OWN if all(_exists(number, kind) for kind in ("uid", "gid"))), None)
    if not named or own is None:
        lacking = f"named {' or '.join(WITH_ENTRY)}" if not named else " or ".join(map(str, OWN))
        raise StackError(f"Postgres does not run as root and there is no account {lacking}: run noetl as another user")
    former = {*named, *OWN} - {own}
    return ServerAccounts(Account(own, own), Account(named[0], own), frozenset(former))


def _named() -> Iterator[int]:
    for name in WITH_ENTRY:
        try:
            yield pwd.getpwnam(name).pw_uid
        except KeyError:
            continue


def _exists(number: int, kind: str) -> bool:
    """Whether this user namespace has the account (``uid``) or the group (``gid``)."""
    try:
        rows = [[int(field) for field in line.split()] for line in (PROC / f"{kind}_map").read_text().splitlines()]
    except FileNotFoundError:
        return True
    return any(first <= number < first + count for first, _, count in rows)
