"""What a command talks to: the cluster that the environment names, else this folder's embedded stack."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import click

from noetl_activities.variables import DSN_VARIABLE, HOME_VARIABLE
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.errors import NotStartedError, StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.process import FOR_THE_OWNER
from noetl_temporal.stack.use import Use, running, use

__all__ = ["Deployment", "deployment_to_run", "deployment_to_submit", "running_deployment"]

CLUSTER = ("TEMPORAL_ADDRESS", "TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE")


class Deployment(NamedTuple):
    """``ui`` is the web UI, if known. ``serve`` when this process is to be the worker and the mirror; else
    ``credentials`` is what NOETL_CREDENTIALS named where the stack's worker started."""

    ui: str | None = None
    serve: bool = False
    credentials: str = ""


def _is_cluster_set() -> bool:
    return any(os.environ.get(name) for name in CLUSTER)


@contextmanager
def deployment_to_run() -> Generator[Deployment]:
    """A place to run a playbook; the environment then names it. Raises NotStartedError, and StackError at its end."""
    if _is_cluster_set():
        yield Deployment()
        return
    with ExitStack() as until_left:
        used = _join_or_start(until_left)
        if used.owned:  # this process is its worker, and only its account reads what a worker of the stack writes
            os.umask(FOR_THE_OWNER)
        # Nobody can open the web UI of a stack that stops with the run.
        yield Deployment(None if used.owned else used.addresses.ui, used.owned, used.addresses.credentials)


def _join_or_start(until_left: ExitStack) -> Use:
    try:
        home = Home()
        used = until_left.enter_context(use(home, lambda: _report_wait(home)))
    except OSError as error:
        problem = Home().problem(error)
        if problem is None:
            raise
        raise NotStartedError(problem) from error
    except StackError as error:
        raise NotStartedError(str(error)) from error
    _set_environment(home, used.addresses)
    return used


def _report_wait(home: Home) -> None:
    how = f"`fuser -v {home.users_file}` shows it, Ctrl-C stops it with the stack"
    click.echo(f"waiting for another run that uses this stack ({how})", err=True)


def deployment_to_submit() -> Deployment:
    """A stack where a run continues by itself; the environment then names it. Raises NotStartedError."""
    if _is_cluster_set():
        return Deployment()
    home = Home()
    found = running(home)
    if found is None:
        raise NotStartedError(f"{_none_is_running(home)}. Nothing was started")
    if found.mode == "run":
        raise NotStartedError(
            f"the stack of this folder belongs to a `noetl run` (process {found.pid}), and stops with it: run "
            "`noetl dev up` after it has ended. Nothing was started"
        )
    _set_environment(home, found)
    return Deployment(found.ui, credentials=found.credentials)


def running_deployment() -> Deployment:
    """A place to look at runs; the environment then names it. Raises StackError when none is up."""
    if _is_cluster_set():
        return Deployment()
    home = Home()
    found = running(home)
    if found is None:
        raise StackError(_none_is_running(home))
    _set_environment(home, found)
    return Deployment(found.ui)


def _none_is_running(home: Home) -> str:
    kept = " (its runs are kept)" if home.database.exists() else ""
    return (
        f"no stack is running for {home.project or home.root}: start it with `noetl dev up`{kept}, "
        "or set TEMPORAL_ADDRESS to use a cluster; `noetl dev list` shows the stacks of other folders"
    )


def _set_environment(home: Home, stack: Addresses) -> None:
    if os.environ.get(DSN_VARIABLE, stack.postgres) != stack.postgres:
        click.echo(
            "NOETL_POSTGRES is ignored, because TEMPORAL_ADDRESS is not set: using this folder's stack", err=True
        )
    os.environ.update({**stack.environment(), HOME_VARIABLE: str(home.root)})
