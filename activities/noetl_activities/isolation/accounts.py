"""The user account of a task.

A worker that runs as root gives each task an account of its own, which owns no files and no other processes: a number
from an unused range plus the process id of the task. The group is the same for all tasks, so that a deployment can give
them access to a directory (``chgrp 1879048192``), where tasks can write to the files of others. The account has no
capabilities. The exception is Python in a folder that only root may read (/root/.pyenv): then the account may read all
files, and only landlock restricts that; without landlock, the task runs as root without root's capabilities.

Other workers give each task a user namespace with the worker's account in it. This adds and removes no rights, but the
kernel then counts processes per namespace, instead of all processes of this user.

Both also have mounts and shared memory of their own (mounts.py), if the kernel allows it: a separate /dev/shm, which
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

_NEW_USER = 0x10000000
_CHOWN, _OVERRIDE, _READ_ANY, _KILL, _SETGID, _SETUID = (1 << bit for bit in (0, 1, 2, 5, 6, 7))


class TaskAccount:
    """The account of a task.

    ``held``: a description. ``counted``: a limit on processes counts only those of the task. ``shared_memory``:
    /dev/shm is separate. ``keeps_attributes``: the task cannot change permissions, owners, times and extended
    attributes of files that it does not own.
    """

    def __init__(self, held: str, *, counted: bool, shared_memory: bool, keeps_attributes: bool) -> None:
        self.held, self.counted = held, counted
        self.shared_memory, self.keeps_attributes = shared_memory, keeps_attributes


def become_own(folder: str, settings: dict[str, Any], *, landlock: bool) -> TaskAccount:
    """Change to a separate account or namespace, which then owns ``folder``. ``settings``: settings.py."""
    if os.geteuid() != 0:
        return _own_namespace(folder, settings, landlock=landlock)
    shared, read_only = _own_mounts(folder, settings, landlock=landlock)
    keep = _to_keep(folder)
    own = (keep == 0 or landlock) and _own_account(folder, keep)
    if not own:
        system.keep_capabilities(0)
        return TaskAccount("", counted=False, shared_memory=shared, keeps_attributes=read_only)
    keeps_attributes = read_only or keep != _OVERRIDE
    return TaskAccount(
        "own account", counted=True, shared_memory=shared or keep == 0, keeps_attributes=keeps_attributes
    )


def end_all_of(task: int) -> None:
    """Change permanently to the account of ``task``, and send SIGKILL to all its other processes."""
    account = FIRST_ACCOUNT + task
    os.setresgid(TASK_GROUP, TASK_GROUP, TASK_GROUP)
    os.setresuid(account, account, account)
    system.keep_capabilities(0)
    if os.getresuid() == (account, account, account) and system.capabilities() == 0:
        os.kill(-1, signal.SIGKILL)


def _to_keep(folder: str) -> int:
    """Return the capability that an unprivileged account needs to run Python here; 0 for none."""
    if all(_open_to_all(path) for path in (sys.prefix, sys.base_prefix, sys.executable, os.path.dirname(folder))):
        return 0
    return _READ_ANY if system.capabilities() & _READ_ANY else _OVERRIDE


def _open_to_all(path: str) -> bool:
    place = os.path.realpath(path)
    while place != "/":
        if not os.stat(place).st_mode & 1:
            return False
        place = os.path.dirname(place)
    return True


def _own_account(folder: str, keep: int) -> bool:
    """Change to a separate account. False if this root may not: some containers lack the right or the user ids."""
    needed = _CHOWN | _KILL | _SETGID | _SETUID | keep
    account = FIRST_ACCOUNT + os.getpid()
    if system.capabilities() & needed != needed or not (_mapped("uid", account) and _mapped("gid", TASK_GROUP)):
        return False
    os.chown(folder, account, TASK_GROUP)
    os.umask(0o002)
    os.setgroups([])
    os.setresgid(TASK_GROUP, TASK_GROUP, TASK_GROUP)
    system.prctl(system.PR_SET_KEEPCAPS, 1 if keep else 0)
    os.setresuid(account, account, account)
    system.keep_capabilities(keep)
    if keep:
        system.prctl(system.PR_CAP_AMBIENT, system.PR_CAP_AMBIENT_RAISE, keep.bit_length() - 1)
    return True


def _mapped(kind: str, number: int) -> bool:
    """Whether this user namespace maps the account or group ``number``."""
    with open(f"/proc/self/{kind}_map") as file:
        rows = [[int(field) for field in line.split()] for line in file]
    return any(first <= number < first + count for first, _, count in rows)


def _own_namespace(folder: str, settings: dict[str, Any], *, landlock: bool) -> TaskAccount:
    """Enter a user namespace. On systems that grant no capabilities in it (Ubuntu's AppArmor), the task sees itself as
    ``nobody``.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        system.unshare(_NEW_USER)
    except OSError:
        return TaskAccount("", counted=False, shared_memory=False, keeps_attributes=False)
    with contextlib.suppress(OSError):
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    shared, read_only = _own_mounts(folder, settings, landlock=landlock)
    system.keep_capabilities(0)
    return TaskAccount("own user namespace", counted=True, shared_memory=shared, keeps_attributes=read_only)


def _own_mounts(folder: str, settings: dict[str, Any], *, landlock: bool) -> tuple[bool, bool]:
    """Set up separate mounts. Returns whether shared memory is separate, and whether the rest is read-only. Without
    landlock the task may write whatever its account may.
    """
    if not mounts.become_own():
        return False, False
    read_only = landlock and mounts.become_read_only([folder, *settings["directories"]], settings["hidden"])
    return mounts.share_memory(settings["memory"]), read_only
