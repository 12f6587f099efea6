"""``noetl dev``: keep a stack up in this folder."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from noetl_temporal.cli.exits import FAILED
from noetl_temporal.stack.addresses import Addresses, without_password
from noetl_temporal.stack.errors import BusyError, StackError
from noetl_temporal.stack.fall import forget_fall, reason_of_fall
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.leftovers import end_leftovers
from noetl_temporal.stack.use import running

__all__ = ["dev_group"]

UP_SECONDS = 90.0
DOWN_SECONDS = 40.0
"""Longer than the services and then the servers are given to end."""
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
    if found is None:
        _tell_fall(home)
    addresses = found or _started(home)
    if addresses.mode == "run":
        raise StackError(f"a `noetl run` (process {addresses.pid}) owns the stack here: try again when it has ended")
    click.echo("already up" if found else "up")
    _show(addresses, without_password)


@dev_group.command("down")
def down_command() -> None:
    """Stop the stack. Its data stays; runs in progress go on after the next `noetl dev up`."""
    home = Home()
    owner = home.owner()
    if owner is None:
        _tell_fall(home)
        forget_fall(home)
        click.echo("nothing runs here")
        return
    if owner.mode == "run":
        raise StackError(f"the stack here belongs to a `noetl run` (process {owner.pid}): stop that with Ctrl-C")
    _end(home, owner.pid)
    click.echo("down")


@dev_group.command("status")
def status_command() -> None:
    """Say whether the stack is up and where, or why it fell; exits 1 when it is not up."""
    home = Home()
    found = running(home)
    if found is None:
        owner = home.owner()
        click.echo(f"starting or stopping (process {owner.pid})" if owner else "down")
        if owner is None and (reason := reason_of_fall(home)):
            click.echo(reason)
        sys.exit(FAILED)
    click.echo("up" if found.mode == "dev" else f"up for a `noetl run` (process {found.pid})")
    _show(found, str)


@dev_group.command("serve", hidden=True)
def serve_command() -> None:
    """Be the process behind `noetl dev up`."""
    from noetl_temporal.stack.serve import serve

    serve(Home())


def _show(addresses: Addresses, shown: Callable[[str], str]) -> None:
    """``up`` may be called by a script whose output is kept, so only ``status`` tells the passwords."""
    rows = {
        "web ui": addresses.ui,
        "temporal": f"{addresses.temporal} (namespace default)",
        "event log": shown(addresses.postgres_tcp),
        "playbooks": shown(addresses.playbooks),
        "logs": str(Home().log("*")),
    }
    for name, value in rows.items():
        click.echo(f"  {name:9} {value}")


def _tell_fall(home: Home) -> None:
    reason = None if home.owner() else reason_of_fall(home)
    if reason:
        click.echo(reason, err=True)


def _started(home: Home) -> Addresses:
    """Start the serving process, detached, and wait for what it publishes; or what another publishes meanwhile."""
    home.prepare()
    log = home.log("stack")
    process = None
    deadline = time.monotonic() + UP_SECONDS
    while time.monotonic() < deadline:
        found = running(home)
        if found:
            click.echo(log.read_text(), err=True, nl=False)
            return found
        if home.owner() is None:
            if process is None:
                process = _serving(log)
            elif process.poll() is not None:
                raise StackError(log.read_text().strip().removeprefix("Error: ") or f"the stack ended: see {log}")
        time.sleep(POLL_SECONDS)
    if process:
        process.terminate()
    raise StackError(f"the stack was not up after {UP_SECONDS:g} s: see {log}")


def _serving(log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "noetl_temporal.cli", "dev", "serve"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _end(home: Home, pid: int) -> None:
    """Ask the serving process to end, and make sure of it and of all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_SECONDS
    while home.owner() == (pid, "dev"):
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    with contextlib.suppress(BusyError), home.owner_lock("dev"):
        end_leftovers(home.servers)
        forget_fall(home)
