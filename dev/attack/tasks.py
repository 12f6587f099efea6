"""Code of python tasks that tries to access processes, files and sockets, in ways that a single check would miss, or
leaves processes behind.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from dev.attack.attack import Attack, AttackClass
from dev.attack.task_code import CONNECTS, FAILING, FILES, LIBC, PROCESSES, first_address
from dev.attack.tool_calls import call
from noetl_activities.isolation.probe import describe_isolation
from noetl_activities.isolation.settings import TASK_DIRECTORIES_VARIABLE
from noetl_activities.python.tool import TOOL

__all__ = ["CLASS"]

REFUSALS = ("PermissionError", "ProcessLookupError", "FileNotFoundError", "OSError", "CalledProcessError")
THROUGH = "got through"
SECRET = "secret: canary-4711"

HARNESS = """
import json, os, subprocess, sys, threading

def attempt(attack, given):
    try:
        exec(attack, {**given, "os": os})
    except BaseException as error:
        return type(error).__name__
    return "got through"

def in_a_thread(attack, given):
    said = []
    thread = threading.Thread(target=lambda: said.append(attempt(attack, given)))
    thread.start()
    thread.join()
    return said[0]

def in_a_child(attack, given, depth=1, own_session=False):
    reading, writing = os.pipe()
    if os.fork() == 0:
        if own_session:
            os.setsid()
        said = in_a_child(attack, given, depth - 1, own_session) if depth > 1 else attempt(attack, given)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 1000).decode()
    os.wait()
    return said

def in_a_program(attack, given, **options):
    program = "import json, os, sys; exec(sys.argv[1], {**json.loads(sys.argv[2]), 'os': os})"
    command = [sys.executable, "-c", program, attack, json.dumps(given)]
    done = subprocess.run(command, capture_output=True, text=True, **options)
    error = done.stderr.strip().splitlines()[-1] if done.returncode else "got through"
    return error.partition(":")[0].rpartition(".")[2]

said = """
WAYS = {
    "in the task": "attempt(attack, given)",
    "in a thread": "in_a_thread(attack, given)",
    "in a child": "in_a_child(attack, given)",
    "in a session": "in_a_child(attack, given, own_session=True)",
    "in a grandchild": "in_a_child(attack, given, depth=3, own_session=True)",
    "in a program": "in_a_program(attack, given)",
    "in a program's session": "in_a_program(attack, given, start_new_session=True, close_fds=False)",
}

VICTIMS = ("another process", "the worker", "the supervisor")
SOCKETS = {
    "a Unix socket": "import socket; socket.socket(socket.AF_UNIX).connect(path)",
    "a packet of a Unix socket": "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect(path)",
    "keys": f"{LIBC}failed = libc.syscall({250 if os.uname().machine == 'x86_64' else 219}, 0, -4, 1){FAILING}",
    "netlink": "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9).bind((0, 0))",
    "raw packets": "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "frames": "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "a virtual machine's": "import socket; socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
}
LEFT = {
    "a session": "left(start_new_session=True)",
    "a stopped one": "os.kill(left(start_new_session=True).pid, 19)",
    "without files": "left(start_new_session=True, close_fds=True, cwd='/')",
    "deaf to signals": "import signal\nfor one in (1, 2, 15): signal.signal(one, signal.SIG_IGN)\n"
    "left(start_new_session=True, restore_signals=False)",
    "forked twice": "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        left()\n    os._exit(0)\n"
    "os.wait()",
    "in a namespace": f"{LIBC}libc.unshare(0x10000000)\nleft(start_new_session=True)",
    "three of them": "for _ in range(3): left(start_new_session=True)",
    "from a thread": "import threading\nthread = threading.Thread(target=left)\nthread.start()\nthread.join()",
}
"""Processes that are left behind; each ends by itself after a while."""

LEAVE = """
import os, subprocess
nothing = subprocess.DEVNULL

def left(**options):
    return subprocess.Popen(
        [mark, "20"], executable="/bin/sleep", stdin=nothing, stdout=nothing, stderr=nothing, **options
    )

"""


class Target(NamedTuple):
    """The processes, ports and files that a task must not access."""

    victim: int
    port: int
    folder: Path
    secret: Path

    def names(self, victim: str) -> dict[str, Any]:
        """The names that an attack uses; the secret is written again, as an attack may remove it."""
        self.secret.write_text(SECRET)
        pid = {"the worker": os.getpid(), "the supervisor": 0}.get(victim, self.victim)
        return {
            "victim": pid,
            "address": first_address(pid or self.victim),
            "port": self.port,
            "path": str(self.folder / "socket"),
            "folder": str(self.folder / "own"),
            "secret": str(self.secret),
        }


class _Site:
    """The target of the attacks, and whether tasks are sandboxed."""

    target: Target
    is_confined = True


def _attack(way: str, description: str, code: str, victim: str = "") -> Attack:
    return Attack(f"{description} {victim} {way}", partial(_gets_through, way, code, victim))


def _gets_through(way: str, code: str, victim: str) -> bool:
    """Whether the code got the access that it tried to get."""
    names = _Site.target.names(victim)
    if victim == "the supervisor":
        code = f"victim = supervisor\n{code}"
    said = _value_of_said(f"given['supervisor'] = os.getppid()\n{HARNESS}{WAYS[way]}", {"attack": code, "given": names})
    if said != THROUGH and said not in REFUSALS:
        raise ValueError(f"this is no refusal: {said}")
    return said == THROUGH


def _value_of_said(code: str, given: dict[str, Any]) -> str:
    """The variable ``said``, of a task or of a process that nothing confines."""
    if not _Site.is_confined:
        program = f"import json, os, sys\nglobals().update(json.loads(sys.argv[1]))\n{code}\nprint(said)"
        command = [sys.executable, "-c", program, json.dumps(given)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    outcome = asyncio.run(call(TOOL, {"code": f"{code}\nresult = said"}, given=given))
    return outcome.error.code or outcome.error.message if outcome.error else str(outcome.result)


def _leaving_attack(description: str, number: int) -> Attack:
    return Attack(f"leaves {description} {number}", partial(_leaves_process, LEFT[description], number))


def _leaves_process(code: str, number: int) -> bool:
    """Whether a process is left when the call has ended."""
    mark = f"noetl-left-{os.getpid()}-{number}"
    said = _value_of_said(f"{LEAVE}{code}\nsaid = 'left'", {"mark": mark})
    processes = list(_processes_with_mark(mark.encode()))
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if said != "left":
        raise ValueError(f"it left nothing: {said}")
    return bool(processes)


def _processes_with_mark(mark: bytes) -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cmdline").read_bytes().startswith(mark):
                yield int(process.name)


@functools.cache
def _isolation() -> str:
    """Return the description of the isolation of tasks on this machine."""
    return asyncio.run(describe_isolation())


def _missing() -> str:
    return "" if "landlock" in _isolation() else _isolation()


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    """Processes, files, sockets and what is left behind, in turn. Ports and sockets are left out if the kernel cannot
    restrict them: the worker's log lists these gaps.
    """
    connects = CONNECTS if "TCP ports by list" in _isolation() else {}
    sockets = SOCKETS if "sockets by list" in _isolation() else {}
    for index in range(count):
        way = rng.choice(list(WAYS))
        if index % 4 == 0:
            name = rng.choice(list(PROCESSES))
            yield _attack(way, name, PROCESSES[name], rng.choice(VICTIMS))
        elif index % 4 == 3:
            yield _leaving_attack(rng.choice(list(LEFT)), rng.randrange(10**6))
        else:
            table = ({**connects, **sockets} or FILES) if index % 4 == 1 else FILES
            name = rng.choice(list(table))
            yield _attack(way, name, table[name])


def _disable_guard() -> AbstractContextManager[object]:
    """The same code in a process of the worker's account."""
    return patch.object(_Site, "is_confined", False)


@contextmanager
def _site() -> Generator[None]:
    """A process with a secret, a folder that tasks may use beside a file that they may not, and two sockets."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (folder / "own").mkdir()
    (folder / "own").chmod(0o777)
    (folder / "private").mkdir(mode=0o700)
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(folder / "socket"))
        (folder / "socket").chmod(0o777)
        unix.listen()
        victim = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", "input()"],
                stdin=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "NOETL_CREDENTIAL_PG": SECRET},
            )
        )
        stack.callback(victim.kill)
        target = Target(victim.pid, server.getsockname()[1], folder, folder / "private/credentials.yaml")
        stack.enter_context(patch.object(_Site, "target", target, create=True))
        stack.enter_context(patch.dict(os.environ, {TASK_DIRECTORIES_VARIABLE: str(folder / "own")}))
        yield


CLASS = AttackClass(
    "tasks",
    _attacks,
    (
        _attack("in the task", "environment", PROCESSES["environment"], "another process"),
        _attack("in a grandchild", "read", FILES["read"]),
        _attack("in a program", "overwritten", FILES["overwritten"]),
        _attack("in a thread", "TCP", CONNECTS["TCP"]),
        _attack("in a session", "a Unix socket", SOCKETS["a Unix socket"]),
        _leaving_attack("a session", 1),
        _leaving_attack("forked twice", 2),
    ),
    _disable_guard,
    _site,
    _missing,
)
