"""The supervisor process of a task: when the task or its call ends, it kills all processes that the task has started.

The call ends when the other end of the pipe on descriptor 0 is closed: by the worker, or by the kernel when the worker
has ended. On Linux the supervisor is a subreaper: all processes that a task starts, including daemons in their own
sessions, become its children when their parents end. So it kills its children until there are none. On other platforms
it kills the process group of the task.

A thread in the task's process could not do this: C code that holds the GIL (``sum(range(10**15))``) would prevent it
from running. The signal that Linux can send at the death of a parent reaches only one process, and not its children.

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
"""The exit status if the call was cancelled; nothing reads it then."""


def start_task() -> tuple[bytes, Restrictions]:
    """Fork a task, and supervise it. Returns only in the task, inside the sandbox: (call, restrictions).

    The worker sends to descriptor 0 a line of JSON, ``{size, ...}`` with the fields of settings.Settings, and then the
    call, which has ``size`` bytes.
    """
    settings, call = _read_call()
    folder = os.path.join(settings["temporary_folder"], f"noetl-task-{os.urandom(8).hex()}")
    # Only the worker ends a task, but a service manager also sends these signals to the supervisor.
    for signal_number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_IGN)
    _become_subreaper()
    os.mkdir(folder, 0o700)
    supervisor_pid = os.getpid()
    task = os.fork()
    if task == 0:
        _detach_task()
        return call, _confine_task(folder, settings, supervisor_pid)
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


def _become_subreaper() -> None:
    if not _LINUX:
        return
    from noetl_activities.isolation import system

    system.prctl(system.PR_SET_CHILD_SUBREAPER, 1)
    system.prctl(system.PR_SET_DUMPABLE, 0)


def _detach_task() -> None:
    """Detach the task from the supervisor's session, signal handlers and pipe."""
    os.setsid()
    for signal_number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)


def _confine_task(folder: str, settings: dict[str, Any], supervisor: int) -> Restrictions:
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
        status = _wait_for_task(task)
    finally:
        _kill_processes(task)
        _remove_folder(folder)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler to set
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _wait_for_task(task: int) -> int:
    """Wait for the task and return its wait status; 0 if the call ends first."""
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_reader, False)
    os.set_blocking(wake_writer, False)
    signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _on_child_exit)
    while True:
        for pid, status in _reap_children():
            if pid == task:
                return status
        ready, _, _ = select.select([0, wake_reader], [], [])
        if 0 in ready and not os.read(0, 4096):
            return 0
        with contextlib.suppress(BlockingIOError):
            os.read(wake_reader, 4096)


def _on_child_exit(number: int, frame: object) -> None:
    """Do nothing. Python writes to the wakeup descriptor only for signals that have a handler."""


def _reap_children() -> Iterator[tuple[int, int]]:
    """Reap the children that have ended, and yield their process ids and wait statuses."""
    with contextlib.suppress(ChildProcessError):
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            yield child


def _kill_processes(task: int) -> None:
    """Kill all processes of the task. If it has a separate account, they are killed at once, even if they keep starting
    others. Otherwise each round kills all that exist, until none is left; the limit on processes (limits.py) bounds
    their number.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(task, signal.SIGKILL)
    if _LINUX and os.geteuid() == 0 and _descendants():
        _kill_account_processes(task)
    while descendants := _descendants():
        for pid in descendants:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.waitpid(-1, 0)
        for _ in _reap_children():
            pass


def _kill_account_processes(task: int) -> None:
    """Send SIGKILL to all processes of the task's account, in a child with that account: sent by root, the signal would
    reach all processes.
    """
    from noetl_activities.isolation import accounts

    child = os.fork()
    if child == 0:
        try:
            accounts.kill_account_processes(task)
        finally:
            os._exit(_CALL_ENDED)
    os.waitpid(child, 0)


def _descendants() -> list[int]:
    """Return all descendants of this process, parents first. Empty if the kernel has no /proc/PID/task/TID/children:
    then only the process group of the task is killed.
    """
    pids = [os.getpid()]
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children") as file:
                    pids += map(int, file.read().split())
    return pids[1:]


def _remove_folder(folder: str) -> None:
    """Remove the folder of the task, however deep it is nested: Python's own functions are limited by recursion."""
    try:
        os.rmdir(folder)
    except OSError:
        import subprocess

        subprocess.run(["/bin/rm", "-rf", "--", folder], check=False, stderr=subprocess.DEVNULL)  # noqa: S603 - start_task chose the name
