"""The folders of this account's stacks: one for each project, in the account's data folder.

No file of a project is ever used as a stack, because the project may be from an untrusted source: the runs of a
Temporal database or the settings of a Postgres cluster in it could execute code.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from noetl_activities.data_folder import NoHomeError, data_folder
from noetl_temporal.stack.errors import StackError

__all__ = ["real_path", "stack_folder", "stacks_folder"]

DIGEST_CHARACTERS = 16
NAME_CHARACTERS = 40


def stacks_folder() -> Path:
    """Return the folder of all stacks. Raises StackError."""
    try:
        return data_folder() / "stacks"
    except NoHomeError as error:
        raise StackError(str(error)) from None


def stack_folder(project: Path) -> Path:
    """Return the folder of a project's stack, named after the project and a digest of its real path.

    Raises StackError.
    """
    real = real_path(project)
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:DIGEST_CHARACTERS]
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", real.name).strip("-.")[:NAME_CHARACTERS]
    return stacks_folder() / (f"{name}-{digest}" if name else digest)


def real_path(project: Path) -> Path:
    """Return the path with links resolved; the project need not exist. Raises StackError."""
    try:
        return Path(os.path.realpath(project))
    except FileNotFoundError:
        raise StackError("the current folder was removed: change to another, or set NOETL_HOME") from None
