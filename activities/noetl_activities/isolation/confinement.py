"""The sandbox that a task enters before it runs code of the playbook."""

from __future__ import annotations

import contextlib
import os
import sys

from noetl_activities.isolation import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from noetl_activities.isolation.accounts import TaskAccount

NO_SANDBOX = "tasks have the worker's rights here"
"""The message for tasks without a sandbox."""

NICENESS = 5
"""The nice value: a task gets about a third of the worker's share of busy processors."""


class Restrictions:
    """Descriptions of the restrictions that a task has (``active``), and of those that it lacks (``missing``)."""

    def __init__(self) -> None:
        self.active: list[str] = []
        self.missing: list[str] = []

    def add(self, is_active: bool, *, active: str, missing: str) -> None:
        """Append the description ``active`` if the restriction is active, else the description ``missing``."""
        if is_active:
            self.active.append(active)
        else:
            self.missing.append(missing)


def confine(folder: str, settings: dict[str, Any]) -> Restrictions:
    """Drop all rights that the platform lets a process drop, and change to ``folder``.

    ``settings`` are those of settings.Settings. Raises OSError if a feature of the platform fails: then no code of the
    playbook may run.
    """
    restrictions = Restrictions()
    if sys.platform == "linux":
        _confine_on_linux(folder, settings, restrictions)
    else:
        limits.limit_resources(settings["memory_bytes"], None)
        restrictions.missing.append(f"no sandbox on {sys.platform}: {NO_SANDBOX}")
    restrictions.active.append("limits on memory and file size")
    os.chdir(folder)
    os.environ.update(HOME=folder, TMPDIR=folder)
    return restrictions


def _confine_on_linux(folder: str, settings: dict[str, Any], restrictions: Restrictions) -> None:
    from noetl_activities.isolation import accounts, call_filter, landlock, system

    system.prctl(system.PR_SET_DUMPABLE, 1)  # otherwise /proc/self belongs to root
    _lower_priority()
    version = landlock.abi()
    account = accounts.enter_task_account(folder, settings, landlock=version > 0)
    system.prctl(system.PR_SET_DUMPABLE, 1)  # the change of account has reset it
    max_processes = settings["max_processes"] if account.counts_processes else None
    limits.limit_resources(settings["memory_bytes"], max_processes)
    system.prctl(system.PR_SET_NO_NEW_PRIVS, 1)
    if version:
        _restrict_files(folder, settings, account, version)
    # Without landlock, the task can write the files anyway, so blocking chmod would not protect them.
    may_change_attributes = account.protects_attributes or not version
    has_call_filter = call_filter.restrict_calls(may_change_attributes=may_change_attributes)
    _describe_account(account, restrictions)
    _describe_landlock(version, restrictions)
    restrictions.add(has_call_filter, active="sockets by list", missing="any kind of socket")
    if version:
        restrictions.add(
            may_change_attributes or has_call_filter,
            active="permissions of its own files only" if may_change_attributes else "no change of permissions",
            missing="permissions and times of its account's files",
        )
    restrictions.add(account.has_shared_memory, active="own /dev/shm", missing="no /dev/shm")


def _lower_priority() -> None:
    """Give the worker priority on busy processors, and make the kernel kill the task first if memory runs out."""
    os.nice(NICENESS)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _restrict_files(folder: str, settings: dict[str, Any], account: TaskAccount, version: int) -> None:
    from noetl_activities.isolation import files, landlock, mounts

    shared_memory = [mounts.SHARED_MEMORY] if account.has_shared_memory else []
    writable = [folder, *shared_memory, *settings["writable_directories"]]
    landlock.restrict(version, files.allowed_paths(writable, settings["hidden_paths"]), settings["ports"])


def _describe_account(account: TaskAccount, restrictions: Restrictions) -> None:
    restrictions.add(bool(account.description), active=account.description, missing="no separate account")
    restrictions.add(account.counts_processes, active="a limit on processes", missing="no limit on processes")


def _describe_landlock(version: int, restrictions: Restrictions) -> None:
    from noetl_activities.isolation import landlock

    restrictions.add(version > 0, active=f"landlock {version}", missing=f"no landlock: {NO_SANDBOX}")
    restrictions.add(version >= landlock.PORTS_SINCE, active="TCP ports by list", missing="any TCP port")
    restrictions.add(
        version >= landlock.SIGNALS_SINCE,
        active="no signals to others",
        missing="signals to its account's processes",
    )
