"""The supervisor process of a task: ends all processes that the task has started when it, or its call, has ended.

The call is over when the other end of the pipe on descriptor 0 is closed: by the worker that gives it up, or by the
kernel when the worker is gone, however it went. On Linux the supervisor is a subreaper: whatever a task starts,
daemons in sessions of their own included, is the supervisor's child once its own parent has ended. So it ends its
children until there are none. Elsewhere it ends the task's process group.

A thread in the task's process would not do: code in C that keeps the interpreter to itself (``sum(range(10**15))``)
never lets it run. Nor would a signal that Linux sends at the death of a parent, which one process gets, and not those
that it has started.

Nothing of the playbook runs in the supervisor; it does not even parse what the playbook's call holds.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys

from noetl_activities.isolation.confinement import Held, confine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_LINUX = sys.platform == "linux"
_CALL_ENDED = 0
"""The exit status where nobody is left to read it."""


def start_task() -> tuple[bytes, Held]:
    """Fork. Returns in the task alone, confined: with the call that the worker has sent, and what confines it.

    What the worker sends on descriptor 0 is a line of JSON, ``{size, folders, ...}`` as in settings.py, and ``size``
    bytes of the call.
    """
    settings, call = _read_call()
    folder = os.path.join(settings["folders"], f"noetl-task-{os.urandom(8).hex()}")
    for one in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):  # a service is stopped by ending its worker
        signal.signal(one, signal.SIG_IGN)
    _prepare()
    os.mkdir(folder, 0o700)
    own = os.getpid()
    task = os.fork()
    if task == 0:
        _leave()
        return call, _confined(folder, settings, own)
    _supervise(task, folder)
    raise AssertionError("unreachable")


def _read_call() -> tuple[dict[str, Any], bytes]:
    with os.fdopen(os.dup(0), "rb") as pipe:
        line = pipe.readline()
        settings: dict[str, Any] = json.loads(line) if line.endswith(b"\n") else {"size": 1}
        call = pipe.read(settings["size"])
    if len(call) < settings["size"]:
        os._exit(_CALL_ENDED)
    return settings, call


def _prepare() -> None:
    if not _LINUX:
        return
    from noetl_activities.isolation import system

    system.prctl(system.PR_SET_CHILD_SUBREAPER, 1)
    system.prctl(system.PR_SET_DUMPABLE, 0)


def _leave() -> None:
    """In the task: nothing of the supervisor's stays but what the playbook's code may have."""
    os.setsid()
    for one in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(one, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)


def _confined(folder: str, settings: dict[str, Any], supervisor: int) -> Held:
    found = confine(folder, settings)
    if _LINUX:
        from noetl_activities.isolation import system

        system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(_CALL_ENDED)
    return found


def _supervise(task: int, folder: str) -> None:
    """Ends as the task has ended."""
    try:
        status = _wait(task)
    finally:
        _end_all(task)
        _remove(folder)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler to set
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _wait(task: int) -> int:
    """The task's wait status; 0 when the call is over before."""
    woken, waking = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _wake)
    while True:
        for pid, status in _ended():
            if pid == task:
                return status
        ready, _, _ = select.select([0, woken], [], [])
        if 0 in ready and not os.read(0, 4096):
            return 0
        with contextlib.suppress(BlockingIOError):
            os.read(woken, 4096)


def _wake(number: int, frame: object) -> None:
    """Python writes to the wakeup descriptor only for a signal that has a handler."""


def _ended() -> Iterator[tuple[int, int]]:
    """Process ids and wait statuses of the children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended


def _end_all(task: int) -> None:
    """Until none is left. Where the task has an account of its own, all die at once, those that start others without
    end included. Elsewhere round by round: each kills all that there are, so that those which they started meanwhile
    are fewer; a limit on processes (limits.py) bounds the first.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(task, signal.SIGKILL)
    if _LINUX and os.geteuid() == 0 and _descendants():
        _end_account(task)
    while found := _descendants():
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.waitpid(-1, 0)
        for _ in _ended():
            pass


def _end_account(task: int) -> None:
    """Send SIGKILL to all processes of the task's account: as that account, since root's would go to all there are."""
    from noetl_activities.isolation import accounts

    helper = os.fork()
    if helper == 0:
        try:
            accounts.end_all_of(task)
        finally:
            os._exit(_CALL_ENDED)
    os.waitpid(helper, 0)


def _descendants() -> list[int]:
    """Parents before those that they have started. Empty where the kernel has no such file: there the group was all."""
    found = [os.getpid()]
    for pid in found:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children") as file:
                    found += map(int, file.read().split())
    return found[1:]


def _remove(folder: str) -> None:
    """With what the task has left in it, however deep, which Python's own ways to remove a tree cannot."""
    try:
        os.rmdir(folder)
    except OSError:
        import subprocess

        subprocess.run(["/bin/rm", "-rf", "--", folder], check=False, stderr=subprocess.DEVNULL)  # noqa: S603 - a name of our own making
