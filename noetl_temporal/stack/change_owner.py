"""Give a cluster to the account that Postgres runs as, when another account has made it.

Other processes of that account may be at work in it. So each folder changes its owner before its entries are looked at:
from then on no other account adds, renames or replaces one. Only what belonged to that account is given away, no link
is followed, and a link, a file with a second name or a special file is an error.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Container
from pathlib import Path

from noetl_temporal.stack.files import OF_A_FOLDER, refuse_unless_plain
from noetl_temporal.stack.process import Account

__all__ = ["change_owner"]

FOR_ITS_OWNER = 0o700


def change_owner(folder: Path, former: Container[int], account: Account) -> None:
    """Change the owner of ``folder`` and of everything in it; an interrupted change is completed.

    Raises UnsafeFileError, OSError."""
    _change_owner(folder, None, former, account)


def _change_owner(folder: Path, parent: int | None, former: Container[int], account: Account) -> None:
    name = folder if parent is None else folder.name
    descriptor = os.open(name, OF_A_FOLDER, dir_fd=parent)
    try:
        owner = os.fstat(descriptor).st_uid
        if owner not in former and owner != account.uid:
            return
        os.fchown(descriptor, *account)
        os.fchmod(descriptor, FOR_ITS_OWNER)
        for entry in os.listdir(descriptor):  # noqa: PTH208  # of a descriptor: no path leads elsewhere meanwhile
            _change_entry(folder / entry, descriptor, former, account)
    finally:
        os.close(descriptor)


def _change_entry(path: Path, parent: int, former: Container[int], account: Account) -> None:
    status = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        _change_owner(path, parent, former, account)
    elif status.st_uid in former:
        refuse_unless_plain(path, status)
        os.chown(path.name, *account, dir_fd=parent, follow_symlinks=False)
