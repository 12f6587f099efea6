"""The sandbox that a task enters before it runs code of the playbook."""

from __future__ import annotations

import contextlib
import os
import sys

from noetl_activities.isolation import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NO_SANDBOX = "tasks have the worker's rights here"
"""The message for tasks without a sandbox."""

NICENESS = 5
"""The nice value: a task gets about a third of the worker's share of busy processors."""


class Restrictions:
    """Descriptions of the restrictions that this task has (``active``), and of those that it lacks (``missing``)."""

    def __init__(self) -> None:
        self.active: list[str] = []
        self.missing: list[str] = []

    def record(self, is_active: bool, active_restriction: str, missing: str) -> None:
        """Append the description ``active_restriction``, or else ``missing``."""
        (self.active if is_active else self.missing).append(active_restriction if is_active else missing)


def confine(folder: str, settings: dict[str, Any]) -> Restrictions:
    """Drop all rights that the platform lets a process drop, and change to ``folder``. ``settings``: settings.py.

    Raises OSError if a feature of the platform fails: then no code of the playbook may run.
    """
    restrictions = Restrictions()
    if sys.platform == "linux":
        _confine_on_linux(folder, settings, restrictions)
    else:
        limits.limit_resources(settings["memory"], None)
        restrictions.record(False, "", f"no sandbox on {sys.platform}: {NO_SANDBOX}")
    restrictions.record(True, "limits on memory and file size", "")
    os.chdir(folder)
    os.environ.update(HOME=folder, TMPDIR=folder)
    return restrictions


def _confine_on_linux(folder: str, settings: dict[str, Any], restrictions: Restrictions) -> None:
    from noetl_activities.isolation import accounts, call_filter, files, landlock, mounts, system

    system.prctl(system.PR_SET_DUMPABLE, 1)  # otherwise /proc/self belongs to root
    _lower_priority()
    version = landlock.abi()
    account = accounts.enter_task_account(folder, settings, landlock=version > 0)
    system.prctl(system.PR_SET_DUMPABLE, 1)  # the change of account has reset it
    limits.limit_resources(settings["memory"], settings["processes"] if account.counts_processes else None)
    system.prctl(system.PR_SET_NO_NEW_PRIVS, 1)
    if version:
        shared_directories = [mounts.SHARED_MEMORY] if account.has_shared_memory else []
        paths = files.allowed_paths([folder, *shared_directories, *settings["directories"]], settings["hidden"])
        landlock.restrict(version, paths, settings["ports"])
    # Without landlock, the task can write the files anyway, so blocking chmod would not protect them.
    may_change_attributes = account.protects_attributes or not version
    has_call_filter = call_filter.restrict_calls(may_change_attributes=may_change_attributes)
    restrictions.record(bool(account.description), account.description, "no separate account")
    restrictions.record(account.counts_processes, "a limit on processes", "no limit on processes")
    restrictions.record(version > 0, f"landlock {version}", f"no landlock: {NO_SANDBOX}")
    restrictions.record(version >= landlock.PORTS_SINCE, "TCP ports by list", "any TCP port")
    restrictions.record(version >= landlock.SIGNALS_SINCE, "no signals to others", "signals to its account's processes")
    restrictions.record(has_call_filter, "sockets by list", "any kind of socket")
    if version:
        active_restriction = (
            "permissions of its own files only" if may_change_attributes else "no change of permissions"
        )
        restrictions.record(
            may_change_attributes or has_call_filter, active_restriction, "permissions and times of its account's files"
        )
    restrictions.record(account.has_shared_memory, "own /dev/shm", "no /dev/shm")


def _lower_priority() -> None:
    """Give the worker priority on busy processors, and make the kernel kill the task first if memory runs out."""
    os.nice(NICENESS)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
