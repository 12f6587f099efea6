"""``noetl dev``: keep the stack of this folder running."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from noetl_temporal.cli.exits import FAILED
from noetl_temporal.cli.stacks import list_command, rm_command, running_projects
from noetl_temporal.stack.addresses import Addresses, without_password
from noetl_temporal.stack.crash import clear_crash, crash_reason
from noetl_temporal.stack.errors import BusyError, StackError
from noetl_temporal.stack.files import open_log, read_text
from noetl_temporal.stack.home import Home, Owner
from noetl_temporal.stack.identity import Identity, identity
from noetl_temporal.stack.leftovers import end_leftovers
from noetl_temporal.stack.locks import ReportedWait
from noetl_temporal.stack.process import OWNER_ONLY_UMASK
from noetl_temporal.stack.program import import_path_variable, noetl_command
from noetl_temporal.stack.use import running_stack

__all__ = ["dev_group"]

UP_SECONDS = 90.0
"""The longest wait for the stack to be ready."""

DOWN_SECONDS = 40.0
"""The longest wait for the stack to stop: longer than its services and servers together may take."""

POLL_SECONDS = 0.05
SERVE = "dev serve"
"""The arguments of the serving process, which identify it."""

BUSY_STATUS = 75
"""The exit status of `dev serve` if another process owns the stack; `dev up` then waits for that process."""


@click.group("dev")
def dev_group() -> None:
    """Keep Temporal, Postgres, a worker and the mirror running for this folder.

    Everything listens on 127.0.0.1. The data is kept outside the folder: `noetl dev status` shows where (NOETL_HOME
    sets another location).
    While it is up, `noetl run` uses it instead of starting one of its own, and runs outlive the command.

    \b
    noetl dev up
    noetl run playbook.yaml
    noetl dev down
    """


@dev_group.command("up", short_help="Start the stack and wait until it is ready.")
def up_command() -> None:
    """Start the stack and return when it is ready. Does nothing if it is already running."""
    from noetl_temporal.submission.credential_source import (
        credential_source,  # with the driver, which --help need not wait for
    )

    credential_source()  # raises here what the worker would only report in its log
    home = Home()
    existing = running_stack(home)
    if existing is None:
        _report_crash(home)
    addresses = existing or _start(home)
    if addresses.mode == "run":
        raise StackError(
            f"a `noetl run` (process {addresses.owner_pid}) owns the stack of this folder: try again after it ends"
        )
    click.echo("already running" if existing else "up")
    _show(home, addresses, without_password)


@dev_group.command("down")
def down_command() -> None:
    """Stop the stack. Its data is kept; runs in progress continue after the next `noetl dev up`."""
    home = Home()
    owner = home.owner()
    if owner is None:
        _report_crash(home)
        clear_crash(home)
        click.echo("no stack is running here")
        return
    if owner.mode == "run":
        raise StackError(f"a `noetl run` (process {owner.pid}) owns the stack of this folder: stop it with Ctrl-C")
    _end_server(home, owner)
    click.echo("down")


@dev_group.command("status", short_help="Show whether the stack is running, and its addresses.")
def status_command() -> None:
    """Show whether the stack is running and its addresses, or why it crashed. Exits with 1 if it is not running."""
    home = Home()
    addresses = running_stack(home)
    if addresses is None:
        owner = home.owner()
        click.echo(f"starting or stopping (process {owner.pid})" if owner else "down")
        if owner is None and (reason := crash_reason(home)):
            click.echo(reason)
        _show_rows({"folder": str(home.project or home.root), "data": str(home.root)})
        if other_projects := running_projects():
            click.echo(f"up elsewhere (`noetl dev list`): {', '.join(other_projects)}")
        sys.exit(FAILED)
    click.echo("up" if addresses.mode == "dev" else f"up for a `noetl run` (process {addresses.owner_pid})")
    _show(home, addresses, str)


@dev_group.command("serve", hidden=True)
def serve_command() -> None:
    """Run the servers of `noetl dev up`."""
    from noetl_temporal.stack.serve import serve

    try:
        serve(Home())
    except BusyError:
        sys.exit(BUSY_STATUS)


dev_group.add_command(list_command)
dev_group.add_command(rm_command)


def _show(home: Home, addresses: Addresses, format_dsn: Callable[[str], str]) -> None:
    """Print the addresses. Only ``status`` prints passwords, because scripts may log the output of ``up``."""
    rows = {
        "web ui": addresses.ui,
        "temporal": f"{addresses.temporal} (namespace default)",
        "event log": format_dsn(addresses.postgres_tcp),
        "playbooks": format_dsn(addresses.playbooks),
        "data": str(home.root),
        "signing key": addresses.signing_key_file,
        "logs": str(home.log("*")),
    }
    _show_rows(rows)


def _show_rows(rows: Mapping[str, str]) -> None:
    for name, value in rows.items():
        click.echo(f"  {name:11} {value}")


def _report_crash(home: Home) -> None:
    reason = None if home.owner() else crash_reason(home)
    if reason:
        click.echo(reason, err=True)


def _start(home: Home) -> Addresses:
    """Start the serving process, detached, and wait until it or another process publishes the addresses."""
    home.prepare()
    log = home.log("stack")
    process = None
    wait = ReportedWait(lambda: f"waiting for the stack: {home.owner_message()}")
    deadline = time.monotonic() + UP_SECONDS
    while time.monotonic() < deadline:
        addresses = running_stack(home)
        if addresses:
            click.echo(read_text(log), err=True, nl=False)
            return addresses
        owner = home.owner()
        if owner is None and process is None:
            process = _spawn_server(log)
        elif owner is None and process and process.poll() == BUSY_STATUS:
            process = None
        elif owner is None and process and process.poll() is not None:
            raise StackError(read_text(log).strip().removeprefix("Error: ") or f"the stack ended: see {log}")
        elif owner and (process is None or owner.pid != process.pid):
            wait.pause(POLL_SECONDS)
        else:
            time.sleep(POLL_SECONDS)
    if process:
        process.terminate()
    raise StackError(f"the stack was not ready after {UP_SECONDS:g} s: see {log}")


def _spawn_server(log: Path) -> subprocess.Popen[bytes]:
    with open_log(log) as output:
        return subprocess.Popen(
            noetl_command("dev", "serve"),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=OWNER_ONLY_UMASK,
            env={**os.environ, **import_path_variable()},
        )


def _end_server(home: Home, owner: Owner) -> None:
    """Stop the serving process; if it does not end in time, kill it and its servers. Raises StackError.

    The lock names the process, which is stopped only if it is `noetl dev serve`.
    """
    serving = identity(owner.pid)
    if home.owner() != owner or serving is None:
        return _remove_leftovers(home)
    if SERVE not in serving.command:
        raise StackError(
            f"process {owner.pid} holds {home.owner_lock_file}, and is not `noetl {SERVE}`: end it yourself"
        )
    _signal(owner.pid, serving, signal.SIGTERM)
    wait = ReportedWait(lambda: f"waiting for process {owner.pid} to stop the servers, for at most {DOWN_SECONDS:g} s")
    deadline = time.monotonic() + DOWN_SECONDS
    while home.owner() == owner:
        if time.monotonic() > deadline:
            _signal(owner.pid, serving, signal.SIGKILL)
        wait.pause(POLL_SECONDS)
    return _remove_leftovers(home)


def _signal(pid: int, process: Identity, number: signal.Signals) -> None:
    if identity(pid) == process:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _remove_leftovers(home: Home) -> None:
    with contextlib.suppress(BusyError), home.owner_lock("dev"):
        end_leftovers(home.processes_file)
        clear_crash(home)
