"""Python code that tries to access what a task must not access. It raises an error if it is prevented."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["CONNECTS", "FAILING", "FILES", "LIBC", "PROCESSES", "first_address", "unconfined"]

LIBC = "import ctypes, errno, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
FAILING = "\nif failed < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))\n"

PROCESSES = {
    "environment": "assert b'secret' in open(f'/proc/{victim}/environ', 'rb').read()",
    "memory": "open(f'/proc/{victim}/mem', 'rb').close()",
    "maps": "assert open(f'/proc/{victim}/maps').read()",
    "descriptors": "os.readlink(f'/proc/{victim}/fd/0')",
    "files through its root": "os.listdir(f'/proc/{victim}/root/')",
    "its folder": "os.listdir(f'/proc/{victim}/cwd/')",
    "a signal": "os.kill(victim, 0)",
    "limits": "import resource; resource.prlimit(victim, resource.RLIMIT_CORE)",
    "priority": "os.setpriority(os.PRIO_PROCESS, victim, 19)",
    "processors": "os.sched_setaffinity(victim, {0})",
    "ptrace": LIBC + "failed = libc.ptrace(16, victim, None, None)" + FAILING,
    "memory by a call": LIBC
    + "class Vector(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]\n"
    + "byte = ctypes.create_string_buffer(1)\n"
    + "here, there = Vector(ctypes.addressof(byte), 1), Vector(address, 1)\n"
    + "failed = libc.process_vm_readv(victim, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)"
    + FAILING,
}
"""``victim`` is the process id of another process, ``address`` one in its memory."""

FILES = {
    "read": "open(secret).read()",
    "listed": "os.listdir(os.path.dirname(secret))",
    "through a link": "os.symlink(secret, 'link'); open('link').read()",
    "through a hard link": "os.link(secret, folder + '/link'); open(folder + '/link').read()",
    "moved": "os.rename(secret, folder + '/moved')",
    "removed": "os.remove(secret)",
    "overwritten": "open(secret, 'w').close()",
    "beside": "open(os.path.dirname(secret) + '/new', 'w').close()",
    "through /proc": "open('/proc/self/root' + secret).read()",
    "cut": "os.truncate(secret, 0)",
    "by a program": "import subprocess; subprocess.run(['cat', secret], check=True)",
    "made readable": "os.chmod(secret, 0o666); open(secret).read()",
}
"""``secret`` is a file, ``folder`` one of the task's own."""

CONNECTS = {
    "TCP": "import socket; socket.create_connection(('127.0.0.1', port), 5)",
    "Multipath TCP": "import socket; socket.socket(2, 1, 262).connect(('127.0.0.1', port))",
    "Fast Open": "import socket; socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', port))",
    "listening": "import socket; socket.create_server(('127.0.0.1', 0))",
}
"""``port`` is one that nobody has named."""


def unconfined(code: str, python_path: str = "", **given: Any) -> str:
    """Run the same code in an unsandboxed process of our account."""
    program = f"import json, os, sys\nglobals().update(json.loads(sys.argv[1]))\n{code}"
    command, environment = [sys.executable, "-c", program, json.dumps(given)], {**os.environ, "PYTHONPATH": python_path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.returncode else "got through"


def first_address(pid: int) -> int:
    """Of the process's memory."""
    return int(Path(f"/proc/{pid}/maps").read_text().split("-")[0], 16)
