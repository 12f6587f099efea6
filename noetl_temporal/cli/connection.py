"""The deployment that a command uses: the cluster that the environment names, else this folder's embedded stack."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import click

from noetl_activities.variables import DSN_VARIABLE, HOME_VARIABLE, TEMPORAL_ADDRESS_VARIABLE
from noetl_temporal.observability.tracing import tracing_warning
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.errors import NoStackError, NotStartedError, StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.process import OWNER_ONLY_UMASK
from noetl_temporal.stack.use import Use, running_stack, use_stack

__all__ = ["Deployment", "deployment_to_run", "deployment_to_submit", "running_deployment", "warn_of_missing_traces"]

CLUSTER_VARIABLES = (TEMPORAL_ADDRESS_VARIABLE, "TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE")


class Deployment(NamedTuple):
    """A cluster, or the stack of a folder.

    ``ui_url`` is the URL of its web UI, if known. ``serves_here``: this process must run the worker and the mirror.
    ``credentials`` is the value of NOETL_CREDENTIALS with which the stack was started.
    """

    ui_url: str | None = None
    serves_here: bool = False
    credentials: str = ""


def _names_cluster() -> bool:
    return any(os.environ.get(name) for name in CLUSTER_VARIABLES)


@contextmanager
def deployment_to_run() -> Generator[Deployment]:
    """Yield a deployment that runs a playbook, starting a stack if needed; the environment then names it.

    Raises NotStartedError; StackError at its end.
    """
    if _names_cluster():
        yield Deployment()
        return
    with ExitStack() as exit_stack:
        stack = _join_or_start(exit_stack)
        if stack.is_owned:  # this process is its worker, whose files only its account may read
            os.umask(OWNER_ONLY_UMASK)
        # Nobody can open the web UI of a stack that stops with the run.
        yield Deployment(None if stack.is_owned else stack.addresses.ui, stack.is_owned, stack.addresses.credentials)


def _join_or_start(exit_stack: ExitStack) -> Use:
    try:
        home = Home()
        stack = exit_stack.enter_context(use_stack(home, lambda: _report_wait(home)))
    except OSError as error:
        problem = Home().describe_error(error)
        if problem is None:
            raise
        raise NotStartedError(problem) from error
    except StackError as error:
        raise NotStartedError(str(error)) from error
    _set_environment(home, stack.addresses)
    return stack


def _report_wait(home: Home) -> None:
    hint = f"`fuser -v {home.users_lock_file}` shows it, Ctrl-C stops it with the stack"
    click.echo(f"waiting for another run that uses this stack ({hint})", err=True)


def deployment_to_submit() -> Deployment:
    """Return a deployment that keeps running after this command; the environment then names it.

    Raises NotStartedError.
    """
    if _names_cluster():
        return Deployment()
    home = Home()
    addresses = running_stack(home)
    if addresses is None:
        raise NotStartedError(f"{_no_stack_message(home)}. Nothing was started")
    if addresses.mode == "run":
        raise NotStartedError(
            f"the stack of this folder belongs to a `noetl run` (process {addresses.owner_pid}), and stops with it: "
            "run `noetl dev up` after it has ended. Nothing was started"
        )
    _set_environment(home, addresses)
    return Deployment(addresses.ui, credentials=addresses.credentials)


def running_deployment() -> Deployment:
    """Return the deployment that is running; the environment then names it. Raises NoStackError if there is none."""
    if _names_cluster():
        return Deployment()
    home = Home()
    addresses = running_stack(home)
    if addresses is None:
        raise NoStackError(_no_stack_message(home))
    _set_environment(home, addresses)
    return Deployment(addresses.ui)


def _no_stack_message(home: Home) -> str:
    note = " (its runs are kept)" if home.temporal_database.exists() else ""
    return (
        f"no stack is running for {home.project or home.root}: start it with `noetl dev up`{note}, "
        "or set TEMPORAL_ADDRESS to use a cluster; `noetl dev list` shows the stacks of other folders"
    )


def _set_environment(home: Home, stack: Addresses) -> None:
    if os.environ.get(DSN_VARIABLE, stack.postgres) != stack.postgres:
        click.echo(
            "NOETL_POSTGRES is ignored, because TEMPORAL_ADDRESS is not set: using this folder's stack", err=True
        )
    os.environ.update({**stack.environment(), HOME_VARIABLE: str(home.root)})


def warn_of_missing_traces() -> None:
    """Warn on stderr if the environment asks for traces that cannot be exported."""
    problem = tracing_warning()
    if problem is not None:
        click.echo(f"warning: {problem}", err=True)
