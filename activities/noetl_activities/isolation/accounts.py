"""The user account of a task.

A worker that runs as root runs each task in a separate account, which owns no files and no other processes. Its number
is the first of an unused range plus the process id of the task. The group is the same for all tasks, so a deployment
can give them access to a directory (``chgrp 1879048192``); tasks can write to each other's files in it. The account has
no capabilities, except if only root may read the folder of Python (/root/.pyenv): then it may read all files that
landlock allows. Without landlock, the task then runs as root without root's capabilities.

Other workers run each task in a separate user namespace that contains the worker's account. This adds and removes no
rights, but the kernel then counts the processes of the namespace, instead of all processes of the user.

In both cases the task has separate mounts and shared memory (mounts.py), if the kernel allows it: a separate /dev/shm,
which multiprocessing needs, because the shared one contains memory of other programs, such as Postgres; and with
landlock, everything that the task may not write is mounted read-only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from noetl_activities.isolation import mounts, system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FIRST_ACCOUNT = 0x70000000
"""1879048192: above the ranges that systemd and common Linux systems use for accounts and containers."""

TASK_GROUP = FIRST_ACCOUNT

_NEW_USER = 0x10000000
_CHOWN, _OVERRIDE, _READ_ANY, _KILL, _SETGID, _SETUID = (1 << bit for bit in (0, 1, 2, 5, 6, 7))


class TaskAccount:
    """The account of a task.

    ``description``: empty if it is the worker's account. ``counts_processes``: a limit on processes counts only those
    of the task. ``has_shared_memory``: /dev/shm is separate. ``protects_attributes``: the task cannot change
    permissions, owners, times and extended attributes of files that it does not own.
    """

    def __init__(
        self, description: str, *, counts_processes: bool, has_shared_memory: bool, protects_attributes: bool
    ) -> None:
        self.description, self.counts_processes = description, counts_processes
        self.has_shared_memory, self.protects_attributes = has_shared_memory, protects_attributes


def enter_task_account(folder: str, settings: dict[str, Any], *, landlock: bool) -> TaskAccount:
    """Change to a separate account, which then owns ``folder``, or to a separate namespace. ``settings``: settings.py

    Returns the account that the task has then.
    """
    if os.geteuid() != 0:
        return _enter_user_namespace(folder, settings, landlock=landlock)
    is_shared_memory_separate, is_read_only = _set_up_mounts(folder, settings, landlock=landlock)
    capability = _capability_to_keep(folder)
    is_separate = (capability == 0 or landlock) and _enter_account(folder, capability)
    if not is_separate:
        system.keep_capabilities(0)
        return TaskAccount(
            "", counts_processes=False, has_shared_memory=is_shared_memory_separate, protects_attributes=is_read_only
        )
    protects_attributes = is_read_only or capability != _OVERRIDE
    return TaskAccount(
        "own account",
        counts_processes=True,
        has_shared_memory=is_shared_memory_separate or capability == 0,
        protects_attributes=protects_attributes,
    )


def kill_account_processes(task: int) -> None:
    """Change permanently to the account of the process ``task``, and send SIGKILL to all its other processes."""
    account = FIRST_ACCOUNT + task
    os.setresgid(TASK_GROUP, TASK_GROUP, TASK_GROUP)
    os.setresuid(account, account, account)
    system.keep_capabilities(0)
    if os.getresuid() == (account, account, account) and system.capabilities() == 0:
        os.kill(-1, signal.SIGKILL)


def _capability_to_keep(folder: str) -> int:
    """Return the capability that an unprivileged account needs to read the files of Python; 0 for none."""
    if all(
        _is_readable_by_all(path) for path in (sys.prefix, sys.base_prefix, sys.executable, os.path.dirname(folder))
    ):
        return 0
    return _READ_ANY if system.capabilities() & _READ_ANY else _OVERRIDE


def _is_readable_by_all(path: str) -> bool:
    folder = os.path.realpath(path)
    while folder != "/":
        if not os.stat(folder).st_mode & 1:
            return False
        folder = os.path.dirname(folder)
    return True


def _enter_account(folder: str, capability: int) -> bool:
    """Change to a separate account. False if root has no right to do this, or no such ids, as in some containers."""
    capabilities = _CHOWN | _KILL | _SETGID | _SETUID | capability
    account = FIRST_ACCOUNT + os.getpid()
    if system.capabilities() & capabilities != capabilities or not (
        _is_mapped("uid", account) and _is_mapped("gid", TASK_GROUP)
    ):
        return False
    os.chown(folder, account, TASK_GROUP)
    os.umask(0o002)
    os.setgroups([])
    os.setresgid(TASK_GROUP, TASK_GROUP, TASK_GROUP)
    system.prctl(system.PR_SET_KEEPCAPS, 1 if capability else 0)
    os.setresuid(account, account, account)
    system.keep_capabilities(capability)
    if capability:
        system.prctl(system.PR_CAP_AMBIENT, system.PR_CAP_AMBIENT_RAISE, capability.bit_length() - 1)
    return True


def _is_mapped(kind: str, number: int) -> bool:
    """Whether this user namespace maps the account or group ``number``."""
    with open(f"/proc/self/{kind}_map") as file:
        rows = [[int(field) for field in line.split()] for line in file]
    return any(first <= number < first + count for first, _, count in rows)


def _enter_user_namespace(folder: str, settings: dict[str, Any], *, landlock: bool) -> TaskAccount:
    """Enter a user namespace. On systems that grant no capabilities in it (Ubuntu's AppArmor), the task sees itself as
    ``nobody``.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        system.unshare(_NEW_USER)
    except OSError:
        return TaskAccount("", counts_processes=False, has_shared_memory=False, protects_attributes=False)
    with contextlib.suppress(OSError):
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    is_shared_memory_separate, is_read_only = _set_up_mounts(folder, settings, landlock=landlock)
    system.keep_capabilities(0)
    return TaskAccount(
        "own user namespace",
        counts_processes=True,
        has_shared_memory=is_shared_memory_separate,
        protects_attributes=is_read_only,
    )


def _set_up_mounts(folder: str, settings: dict[str, Any], *, landlock: bool) -> tuple[bool, bool]:
    """Set up separate mounts. Returns whether shared memory is separate, and whether other files are read-only. Without
    landlock, the task may write all files that its account may write.
    """
    if not mounts.enter_mount_namespace():
        return False, False
    is_read_only = landlock and mounts.make_read_only([folder, *settings["directories"]], settings["hidden"])
    return mounts.mount_shared_memory(settings["memory"]), is_read_only
