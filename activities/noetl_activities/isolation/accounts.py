"""The user account of a task.

A worker that runs as root runs each task as a separate account, which owns no files and no other processes. Its number
is FIRST_ACCOUNT plus the process id of the task. All tasks have the same group, so a deployment can give them access to
a directory (``chgrp 1879048192``); there, tasks can write to each other's files. The account has no capabilities, with
one exception: if only root may read the folder of Python (/root/.pyenv), it may read all files that landlock allows.
Without landlock, such a task runs as root, but without root's capabilities.

Other workers run each task in a separate user namespace, which contains only the worker's account. This adds and
removes no rights, but the kernel then counts the processes of the namespace, instead of all processes of the user.

In both cases the task has separate mounts (mounts.py), if the kernel allows it: a separate /dev/shm, which
multiprocessing needs, because the shared one contains memory of other programs, such as Postgres; and with landlock,
everything that the task may not write is mounted read-only.
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

_NEW_USER_NAMESPACE = 0x10000000
_CHOWN, _READ_AND_WRITE_ALL, _READ_ALL, _KILL, _SETGID, _SETUID = (1 << bit for bit in (0, 1, 2, 5, 6, 7))
"""Capabilities. The second is CAP_DAC_OVERRIDE, the third CAP_DAC_READ_SEARCH."""


class TaskAccount:
    """The account of a task.

    ``description``: empty if it is the worker's account. ``counts_processes``: a limit on processes counts only those
    of the task. ``has_shared_memory``: the task may use /dev/shm. ``protects_attributes``: the task cannot change
    permissions, owners, times and extended attributes of files that it does not own.
    """

    def __init__(
        self, description: str, *, counts_processes: bool, has_shared_memory: bool, protects_attributes: bool
    ) -> None:
        self.description, self.counts_processes = description, counts_processes
        self.has_shared_memory, self.protects_attributes = has_shared_memory, protects_attributes


class _Mounts:
    """The mounts of a task. ``has_shared_memory``: /dev/shm is separate. ``are_read_only``: except writable folders."""

    def __init__(self, *, has_shared_memory: bool, are_read_only: bool) -> None:
        self.has_shared_memory, self.are_read_only = has_shared_memory, are_read_only


def enter_task_account(folder: str, settings: dict[str, Any], *, landlock: bool) -> TaskAccount:
    """Enter a separate account or user namespace, with separate mounts, and return the account.

    A separate account becomes the owner of ``folder``. ``settings`` are those of settings.Settings. ``landlock``:
    whether the kernel supports it.
    """
    if os.geteuid() == 0:
        return _enter_account_as_root(folder, settings, landlock=landlock)
    return _enter_user_namespace(folder, settings, landlock=landlock)


def kill_account_processes(task: int) -> None:
    """Change permanently to the account of the process ``task``, and send SIGKILL to all its other processes."""
    account = FIRST_ACCOUNT + task
    os.setresgid(TASK_GROUP, TASK_GROUP, TASK_GROUP)
    os.setresuid(account, account, account)
    system.keep_capabilities(0)
    if os.getresuid() == (account, account, account) and system.capabilities() == 0:
        os.kill(-1, signal.SIGKILL)


# ---- a worker that runs as root ------------------------------------------------------------------------------------


def _enter_account_as_root(folder: str, settings: dict[str, Any], *, landlock: bool) -> TaskAccount:
    task_mounts = _set_up_mounts(folder, settings, landlock=landlock)
    capability = _capability_for_python(folder)
    may_have_capability = capability == 0 or landlock  # only landlock limits what the capability allows
    if not may_have_capability or not _enter_separate_account(folder, capability):
        system.keep_capabilities(0)
        return TaskAccount(
            "",
            counts_processes=False,
            has_shared_memory=task_mounts.has_shared_memory,
            protects_attributes=task_mounts.are_read_only,
        )
    return TaskAccount(
        "own account",
        counts_processes=True,
        has_shared_memory=task_mounts.has_shared_memory or capability == 0,
        protects_attributes=task_mounts.are_read_only or capability != _READ_AND_WRITE_ALL,
    )


def _capability_for_python(folder: str) -> int:
    """Return the capability that an unprivileged account needs to read the files of Python; 0 if it needs none."""
    paths = (sys.prefix, sys.base_prefix, sys.executable, os.path.dirname(folder))
    if all(map(_is_readable_by_all, paths)):
        return 0
    return _READ_ALL if system.capabilities() & _READ_ALL else _READ_AND_WRITE_ALL


def _is_readable_by_all(path: str) -> bool:
    folder = os.path.realpath(path)
    while folder != "/":
        if not os.stat(folder).st_mode & 1:
            return False
        folder = os.path.dirname(folder)
    return True


def _enter_separate_account(folder: str, capability: int) -> bool:
    """Change to the account of this task, with one ``capability`` or none.

    Returns False if root lacks the capabilities for it, or the ids are not mapped, as in some containers.
    """
    account = FIRST_ACCOUNT + os.getpid()
    needed_capabilities = _CHOWN | _KILL | _SETGID | _SETUID | capability
    has_capabilities = system.capabilities() & needed_capabilities == needed_capabilities
    if not has_capabilities or not _is_mapped("uid", account) or not _is_mapped("gid", TASK_GROUP):
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
    """Whether this user namespace maps the user (``kind`` uid) or the group (gid) with this number."""
    with open(f"/proc/self/{kind}_map") as file:
        rows = [[int(field) for field in line.split()] for line in file]
    return any(first <= number < first + count for first, _, count in rows)


# ---- other workers -------------------------------------------------------------------------------------------------


def _enter_user_namespace(folder: str, settings: dict[str, Any], *, landlock: bool) -> TaskAccount:
    """Enter a user namespace. On systems that grant no capabilities in it (Ubuntu's AppArmor), the task sees itself as
    ``nobody``.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        system.unshare(_NEW_USER_NAMESPACE)
    except OSError:
        return TaskAccount("", counts_processes=False, has_shared_memory=False, protects_attributes=False)
    with contextlib.suppress(OSError):
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    task_mounts = _set_up_mounts(folder, settings, landlock=landlock)
    system.keep_capabilities(0)
    return TaskAccount(
        "own user namespace",
        counts_processes=True,
        has_shared_memory=task_mounts.has_shared_memory,
        protects_attributes=task_mounts.are_read_only,
    )


def _set_up_mounts(folder: str, settings: dict[str, Any], *, landlock: bool) -> _Mounts:
    """Set up separate mounts. Without landlock they are not read-only: the task may write all files of its account."""
    if not mounts.enter_mount_namespace():
        return _Mounts(has_shared_memory=False, are_read_only=False)
    writable = [folder, *settings["writable_directories"]]
    are_read_only = landlock and mounts.make_read_only(writable, settings["hidden_paths"])
    has_shared_memory = mounts.mount_shared_memory(settings["memory_bytes"])
    return _Mounts(has_shared_memory=has_shared_memory, are_read_only=are_read_only)
