"""What another account of the machine tries with a stack, as a program: ``... other_account.py UID FACTS``.

Everything is imported before the account is changed, as Python itself may be in a folder of root. It prints what
came of each attempt as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypedDict

import asyncpg

from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.environment import SIGNING_KEY_VARIABLE
from noetl_temporal.payloads.signing import read_key


class Facts(TypedDict):
    """Where the stack is."""

    files: list[str]
    folders: list[str]
    sockets: str
    postgres_port: int
    temporal: str
    key: str
    playbook: str


def main() -> None:
    """Change the account, try, and print."""
    uid, facts = int(sys.argv[1]), json.loads(sys.argv[2])
    if uid != os.getuid():
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    sys.stdout.write(json.dumps({"uid": os.geteuid(), **{name: attempt(facts) for name, attempt in ATTEMPTS.items()}}))
    sys.stdout.flush()
    os._exit(0)  # Temporal's client has threads that may crash the interpreter while it ends


def _each(paths: list[str], attempt: Callable[[Path], object]) -> list[str]:
    """The sorted kinds of outcomes."""
    return sorted({_came_of(partial(attempt, Path(path))) for path in paths})


def _came_of(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except (OSError, asyncpg.PostgresError) as error:
        return type(error).__name__
    return "done"


def _read(facts: Facts) -> list[str]:
    return _each(facts["files"], Path.read_bytes)


def _list_processes(facts: Facts) -> list[str]:
    return _each(facts["folders"], lambda path: list(path.iterdir()))


def _write_files(facts: Facts) -> list[str]:
    """Opened, not changed."""
    return _each(facts["files"], lambda path: path.open("r+b").close())


def _connect(facts: Facts) -> str:
    def connect() -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"{facts['sockets']}/.s.PGSQL.{facts['postgres_port']}")

    return _came_of(connect)


def _logged_in(facts: Facts) -> str:
    """As the account that playbooks have, by TCP, where the kernel does not say who connects."""

    async def connect() -> None:
        port, account = facts["postgres_port"], "playbooks"
        await asyncpg.connect(host="127.0.0.1", port=port, user=account, database=account, password="guessed")

    return _came_of(lambda: asyncio.run(connect()))


def _ran(facts: Facts) -> list[str]:
    """A run of its own, signed if the key can be read."""
    try:
        read_key(Path(facts["key"]))
        os.environ[SIGNING_KEY_VARIABLE] = facts["key"]
        key = "key"
    except Exception as error:
        key = str(error.__cause__ or error)

    async def run() -> str:
        client = await NoetlClient.connect(facts["temporal"], tools={"noop", "python"})
        handle = await client.submit(compile_or_raise(facts["playbook"]), {}, content=facts["playbook"])
        async with asyncio.timeout(60):
            report = await handle.result()
        return report.status if report.status == "completed" else report.failures.detailed[0].kind

    return [key.partition(": ")[0], asyncio.run(run())]


ATTEMPTS: dict[str, Callable[[Facts], object]] = {
    "read": _read,
    "listed": _list_processes,
    "written": _write_files,
    "reached": _connect,
    "logged in": _logged_in,
    "ran": _ran,
}

if __name__ == "__main__":
    main()
