"""``noetl dev``: keep a stack up in this folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import click

from noetl_temporal.cli.exits import FAILED
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.use import running

__all__ = ["dev_group"]

UP_SECONDS = 90.0
DOWN_SECONDS = 30.0
POLL_SECONDS = 0.05


@click.group("dev")
def dev_group() -> None:
    """Keep Temporal, Postgres, a worker and the mirror running in this folder.

    Everything listens on 127.0.0.1 and keeps its data under .noetl/ (NOETL_HOME names another folder).
    While it is up, `noetl run` uses it instead of starting one of its own, and a run outlives the command.

    \b
    noetl dev up
    noetl run playbook.yaml
    noetl dev down
    """


@dev_group.command("up")
def up_command() -> None:
    """Start the stack and return when it is ready; nothing happens when it already is."""
    home = Home()
    found = running(home)
    if found and found.mode == "run":
        raise StackError(f"a `noetl run` (process {found.pid}) owns the stack here: try again when it has ended")
    addresses = found or _started(home)
    click.echo("already up" if found else "up")
    _show(addresses, addresses.postgres_without_password)


@dev_group.command("down")
def down_command() -> None:
    """Stop the stack. Its data stays; runs in progress go on after the next `noetl dev up`."""
    home = Home()
    found = running(home)
    if found is None:
        click.echo("nothing runs here")
        return
    if found.mode == "run":
        raise StackError(f"the stack here belongs to a `noetl run` (process {found.pid}): stop that with Ctrl-C")
    _end(home, found.pid)
    click.echo("down")


@dev_group.command("status")
def status_command() -> None:
    """Say whether the stack is up and where; exits 1 when it is not."""
    found = running(Home())
    if found is None:
        click.echo("down")
        sys.exit(FAILED)
    click.echo("up" if found.mode == "dev" else f"up for a `noetl run` (process {found.pid})")
    _show(found, found.postgres)


@dev_group.command("serve", hidden=True)
def serve_command() -> None:
    """Be the process behind `noetl dev up`."""
    from noetl_temporal.stack.serve import serve

    serve(Home())


def _show(addresses: Addresses, postgres: str) -> None:
    """``up`` may be called by a script whose output is kept, so only ``status`` tells the password."""
    rows = {
        "web ui": addresses.ui,
        "temporal": f"{addresses.temporal} (namespace default)",
        "postgres": postgres,
        "logs": str(Home().log("*")),
    }
    for name, value in rows.items():
        click.echo(f"  {name:9} {value}")


def _started(home: Home) -> Addresses:
    """Start the serving process, detached, and wait for what it publishes."""
    home.prepare()
    log = home.log("stack")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "noetl_temporal.cli", "dev", "serve"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + UP_SECONDS
    while time.monotonic() < deadline:
        found = Addresses.read(home.stack)
        if found and found.pid == process.pid:
            return found
        if process.poll() is not None:
            raise StackError(log.read_text().strip().removeprefix("Error: ") or f"the stack ended: see {log}")
        time.sleep(POLL_SECONDS)
    process.terminate()
    raise StackError(f"the stack was not up after {UP_SECONDS:g} s: see {log}")


def _end(home: Home, pid: int) -> None:
    """Ask the serving process to end, and make sure of it."""
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_SECONDS
    while home.owned():
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(POLL_SECONDS)
