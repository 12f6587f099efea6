"""The supervisor process of a task: ends all processes that the task has started when it, or its call, has ended.

The call ends when the other end of the pipe on descriptor 0 is closed: by the worker, or by the kernel when the worker
has ended, for whatever reason. On Linux the supervisor is a subreaper: all processes that a task starts, including
daemons in their own sessions, become its children when their parents have ended. So it kills its children until there
are none. On other platforms it kills the process group of the task.

A thread in the task's process would not work: C code that holds the GIL (``sum(range(10**15))``) prevents it from
running. The signal that Linux can send at the death of a parent would only reach one process, and not its children.

No code of the playbook runs in the supervisor; it does not even parse the input of the call.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys

from noetl_activities.isolation.confinement import Restrictions, confine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_LINUX = sys.platform == "linux"
_CALL_ENDED = 0
"""The exit status if the call was cancelled, so that nothing reads it."""


def start_task() -> tuple[bytes, Restrictions]:
    """Fork. Returns only in the task, inside the sandbox: the call that the worker has sent, and the restrictions.

    The worker sends on descriptor 0 a line of JSON, ``{size, folders, ...}`` as in settings.py, and ``size`` bytes of
    the call.
    """
    settings, call = _read_call()
    folder = os.path.join(settings["folders"], f"noetl-task-{os.urandom(8).hex()}")
    for signal_number in (
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGTERM,
    ):  # only the worker ends a task; a service manager signals all processes
        signal.signal(signal_number, signal.SIG_IGN)
    _prepare()
    os.mkdir(folder, 0o700)
    supervisor_pid = os.getpid()
    task = os.fork()
    if task == 0:
        _leave()
        return call, _confined(folder, settings, supervisor_pid)
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
    """In the task: close and reset everything of the supervisor that the playbook's code must not have."""
    os.setsid()
    for signal_number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)


def _confined(folder: str, settings: dict[str, Any], supervisor: int) -> Restrictions:
    restrictions = confine(folder, settings)
    if _LINUX:
        from noetl_activities.isolation import system

        system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(_CALL_ENDED)
    return restrictions


def _supervise(task: int, folder: str) -> None:
    """Wait for the task, clean up, and exit with its status."""
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
    """The wait status of the task; 0 if the call ends before it."""
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_reader, False)
    os.set_blocking(wake_writer, False)
    signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _wake)
    while True:
        for pid, status in _ended():
            if pid == task:
                return status
        ready, _, _ = select.select([0, wake_reader], [], [])
        if 0 in ready and not os.read(0, 4096):
            return 0
        with contextlib.suppress(BlockingIOError):
            os.read(wake_reader, 4096)


def _wake(number: int, frame: object) -> None:
    """Python writes to the wakeup descriptor only for a signal that has a handler."""


def _ended() -> Iterator[tuple[int, int]]:
    """The process ids and wait statuses of ended children."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended


def _end_all(task: int) -> None:
    """Kill all processes until none is left. If the task has its own account, all are killed at once, even if they keep
    starting others. Otherwise each round kills all existing ones, so fewer remain; the limit on processes (limits.py)
    bounds the first round.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(task, signal.SIGKILL)
    if _LINUX and os.geteuid() == 0 and _descendants():
        _end_account(task)
    while descendants := _descendants():
        for pid in descendants:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.waitpid(-1, 0)
        for _ in _ended():
            pass


def _end_account(task: int) -> None:
    """Send SIGKILL to all processes of the task's account, as that account: as root it would reach all processes."""
    from noetl_activities.isolation import accounts

    helper = os.fork()
    if helper == 0:
        try:
            accounts.end_all_of(task)
        finally:
            os._exit(_CALL_ENDED)
    os.waitpid(helper, 0)


def _descendants() -> list[int]:
    """Return all descendants, parents first. Empty if the kernel has no /proc/PID/task/TID/children: then only the
    process group was killed.
    """
    pids = [os.getpid()]
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children") as file:
                    pids += map(int, file.read().split())
    return pids[1:]


def _remove(folder: str) -> None:
    """Remove the folder of the task, at any depth, which Python's functions to remove a tree cannot."""
    try:
        os.rmdir(folder)
    except OSError:
        import subprocess

        subprocess.run(["/bin/rm", "-rf", "--", folder], check=False, stderr=subprocess.DEVNULL)  # noqa: S603 - a name of our own making
