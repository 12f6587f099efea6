"""Where the stacks of this account lie: in its own data folder, one for each project.

Nothing in a project is ever used as a stack, since a project may be a folder that somebody else has made: a Temporal
database in it could hold runs that execute code, a Postgres cluster settings that do.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

from noetl_temporal.stack.errors import StackError

__all__ = ["folder_of", "real_path", "stacks_folder"]

DIGEST = 16
READABLE = 40


def stacks_folder() -> Path:
    """The folder of all stacks. A relative XDG_DATA_HOME is ignored, as its specification asks: it would lead into the
    current folder. Raises StackError."""
    given = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (given if given.is_absolute() else _home() / _data()) / "noetl" / "stacks"


def folder_of(project: Path) -> Path:
    """The folder of a project's stack: its name, for people, and a digest of its real path. Raises StackError."""
    real = real_path(project)
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:DIGEST]
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", real.name).strip("-.")[:READABLE]
    return stacks_folder() / (f"{readable}-{digest}" if readable else digest)


def real_path(project: Path) -> Path:
    """Without links; of a project that is gone too. Raises StackError."""
    try:
        return Path(os.path.realpath(project))
    except FileNotFoundError:
        raise StackError("the current folder was removed: change to another, or set NOETL_HOME") from None


def _home() -> Path:
    try:
        home = Path.home()
    except RuntimeError:
        home = Path()
    if not home.is_absolute():
        raise StackError("this account has no home folder: set XDG_DATA_HOME or NOETL_HOME to a folder you own")
    return home


def _data() -> Path:
    return Path("Library/Application Support" if sys.platform == "darwin" else ".local/share")
