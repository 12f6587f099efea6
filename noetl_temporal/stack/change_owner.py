"""Gives a cluster to the account of the server, after initdb has created it as another account.

Other processes of that account may still write to the cluster. So the owner of a folder is changed before its entries
are read: from then on, no other account can add, rename or replace an entry. Links are not followed; a link, a hard
link or a special file is an error.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from noetl_temporal.stack.files import FOLDER_FLAGS, check_plain_file
from noetl_temporal.stack.process import Account

__all__ = ["change_owner"]

OWNER_ONLY = 0o700


def change_owner(folder: Path, old_uid: int, account: Account) -> None:
    """Give ``folder``, and everything in it that belongs to ``old_uid``, to ``account``.

    Raises UnsafeFileError, OSError.
    """
    _change_folder_owner(folder, None, old_uid, account)


def _change_folder_owner(folder: Path, parent: int | None, old_uid: int, account: Account) -> None:
    name = folder if parent is None else folder.name
    descriptor = os.open(name, FOLDER_FLAGS, dir_fd=parent)
    try:
        if os.fstat(descriptor).st_uid != old_uid:
            return
        os.fchown(descriptor, *account)
        os.fchmod(descriptor, OWNER_ONLY)
        for entry in os.listdir(descriptor):  # noqa: PTH208  # a path could be redirected meanwhile, a descriptor not
            _change_entry_owner(folder / entry, descriptor, old_uid, account)
    finally:
        os.close(descriptor)


def _change_entry_owner(path: Path, parent: int, old_uid: int, account: Account) -> None:
    status = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        _change_folder_owner(path, parent, old_uid, account)
    elif status.st_uid == old_uid:
        check_plain_file(path, status)
        os.chown(path.name, *account, dir_fd=parent, follow_symlinks=False)
