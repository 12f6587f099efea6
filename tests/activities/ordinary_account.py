"""Runs code as a task of a worker that is not root, as a program: ``... ordinary_account.py UID CALL``.

All is imported before root changes its account, as Python may lie where only root looks. Prints the type of the error
that the code ends with, or "got through".
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
import zipfile
from encodings import cp437
from typing import TypedDict

from noetl_activities.isolation import accounts, call_filter, files, landlock, mounts
from noetl_activities.isolation.confinement import confine
from noetl_activities.isolation.settings import Settings

MODULES = {"os": os, "shutil": shutil, "socket": socket, "tempfile": tempfile, "zipfile": zipfile}
IMPORTED_MODULES = (accounts, call_filter, files, landlock, cp437)
"""What ``confine`` and ``zipfile`` import."""


class Call(TypedDict):
    """``own_mounts``: whether the system lets the task have any."""

    code: str
    given: dict[str, str]
    folder: str
    settings: Settings
    own_mounts: bool


def main() -> None:
    """Change the account, confine this process, run the code."""
    uid, call = int(sys.argv[1]), json.loads(sys.argv[2])
    if uid != os.getuid():
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    sys.stdout.write(outcome_of(call))


def outcome_of(call: Call) -> str:
    """The confinement must succeed."""
    if not call["own_mounts"]:
        mounts.enter_mount_namespace = lambda: False
    confine(call["folder"], {**call["settings"]})
    try:
        exec(call["code"], {**MODULES, **call["given"]})
    except BaseException as error:
        return type(error).__name__
    return "got through"


if __name__ == "__main__":
    main()
