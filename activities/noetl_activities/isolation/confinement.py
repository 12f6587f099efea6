"""The sandbox that a task enters before it runs code of the playbook."""

from __future__ import annotations

import contextlib
import os
import sys

from noetl_activities.isolation import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HAS_RIGHTS = "tasks have the worker's rights here"
"""The message for tasks without a sandbox."""

NICENESS = 5
"""The nice value: a task gets about a third of the worker's share of busy processors."""


class Restrictions:
    """Descriptions of the restrictions that are ``held`` and ``missing``."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self.missing: list[str] = []

    def note(self, holds: bool, held: str, missing: str) -> None:
        (self.held if holds else self.missing).append(held if holds else missing)


def confine(folder: str, settings: dict[str, Any]) -> Restrictions:
    """Drop all rights that the platform lets a process drop, and change to ``folder``. ``settings``: settings.py.

    Raises OSError if a feature of the platform fails: then no code of the playbook may run.
    """
    restrictions = Restrictions()
    if sys.platform == "linux":
        _confine_on_linux(folder, settings, restrictions)
    else:
        limits.limit_resources(settings["memory"], None)
        restrictions.note(False, "", f"no sandbox on {sys.platform}: {HAS_RIGHTS}")
    restrictions.note(True, "limits on memory and file size", "")
    os.chdir(folder)
    os.environ.update(HOME=folder, TMPDIR=folder)
    return restrictions


def _confine_on_linux(folder: str, settings: dict[str, Any], restrictions: Restrictions) -> None:
    from noetl_activities.isolation import accounts, call_filter, files, landlock, mounts, system

    system.prctl(system.PR_SET_DUMPABLE, 1)  # otherwise /proc/self belongs to root
    _lower_priority()
    version = landlock.abi()
    identity = accounts.become_own(folder, settings, landlock=version > 0)
    system.prctl(system.PR_SET_DUMPABLE, 1)  # the change of account has reset it
    limits.limit_resources(settings["memory"], settings["processes"] if identity.counted else None)
    system.prctl(system.PR_SET_NO_NEW_PRIVS, 1)
    if version:
        shared = [mounts.SHARED_MEMORY] if identity.shared_memory else []
        paths = files.allowed_paths([folder, *shared, *settings["directories"]], settings["hidden"])
        landlock.restrict(version, paths, settings["ports"])
    attributes = (
        identity.keeps_attributes or not version
    )  # blocking chmod is no use without landlock, as other files can be written
    filtered = call_filter.restrict_calls(attributes=attributes)
    restrictions.note(bool(identity.held), identity.held, "no separate account")
    restrictions.note(identity.counted, "a limit on processes", "no limit on processes")
    restrictions.note(version > 0, f"landlock {version}", f"no landlock: {HAS_RIGHTS}")
    restrictions.note(version >= landlock.PORTS_SINCE, "TCP ports by list", "any TCP port")
    restrictions.note(version >= landlock.SIGNALS_SINCE, "no signals to others", "signals to its account's processes")
    restrictions.note(filtered, "sockets by list", "any kind of socket")
    if version:
        held = "permissions of its own files alone" if attributes else "no change of permissions"
        restrictions.note(attributes or filtered, held, "permissions and times of its account's files")
    restrictions.note(identity.shared_memory, "own /dev/shm", "no /dev/shm")


def _lower_priority() -> None:
    """If memory runs out, the kernel kills the task before its worker. The worker has priority on busy processors."""
    os.nice(NICENESS)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
