"""Give a cluster that another account created to the account that Postgres runs as.

Other processes of the former account may be using the cluster. So the owner of a folder is changed before its entries
are read: from then on no other account can add, rename or replace an entry. Only files of the former account change
their owner. Links are not followed; a link, a hard link or a special file is an error.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Container
from pathlib import Path

from noetl_temporal.stack.files import FOLDER_FLAGS, check_plain_file
from noetl_temporal.stack.process import Account

__all__ = ["change_owner"]

OWNER_ONLY = 0o700


def change_owner(folder: Path, other_owners: Container[int], account: Account) -> None:
    """Change the owner of ``folder`` and of everything in it; an interrupted change is completed.

    Raises UnsafeFileError, OSError."""
    _change_owner(folder, None, other_owners, account)


def _change_owner(folder: Path, parent: int | None, other_owners: Container[int], account: Account) -> None:
    name = folder if parent is None else folder.name
    descriptor = os.open(name, FOLDER_FLAGS, dir_fd=parent)
    try:
        owner = os.fstat(descriptor).st_uid
        if owner not in other_owners and owner != account.uid:
            return
        os.fchown(descriptor, *account)
        os.fchmod(descriptor, OWNER_ONLY)
        for entry in os.listdir(descriptor):  # noqa: PTH208  # a path could be redirected meanwhile, a descriptor not
            _change_entry(folder / entry, descriptor, other_owners, account)
    finally:
        os.close(descriptor)


def _change_entry(path: Path, parent: int, other_owners: Container[int], account: Account) -> None:
    status = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        _change_owner(path, parent, other_owners, account)
    elif status.st_uid in other_owners:
        check_plain_file(path, status)
        os.chown(path.name, *account, dir_fd=parent, follow_symlinks=False)
