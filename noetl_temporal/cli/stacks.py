"""``noetl dev list`` and ``noetl dev rm``: the stacks of this account, and their size on disk."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import click

from noetl_activities.variables import HOME_VARIABLE
from noetl_compiler.printable import printable
from noetl_temporal.cli.exits import FAILED
from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.files import check_folder
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.leftovers import end_leftovers
from noetl_temporal.stack.stack_folders import stack_folder, stacks_folder

__all__ = ["list_command", "rm_command", "running_projects"]

MEGABYTE = 1_000_000


class ListedStack(NamedTuple):
    """A stack's folder. ``project`` is None if unknown; ``size`` is in bytes."""

    folder: Path
    project: Path | None
    size: int
    state: str


@click.command("list", short_help="List the stacks of this account.")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
def list_command(as_json: bool) -> None:
    """List the stacks of this account, and the one in NOETL_HOME: whether each is up, its size, project and folder."""
    own_home = [Home().root] if HOME_VARIABLE in os.environ and Home().root.is_dir() else []
    stacks = [_describe_stack(folder) for folder in (*_folders(), *own_home)]
    if as_json:
        click.echo(json.dumps([_json_fields(stack) for stack in stacks]))
    elif not stacks:
        click.echo(f"there is no stack in {stacks_folder()}")
    else:
        for stack in stacks:
            project = f"({HOME_VARIABLE})" if stack.folder in own_home else _project_name(stack.project)
            click.echo(f"{stack.state:12} {stack.size / MEGABYTE:6.0f} MB  {project}")
            click.echo(f"{'':23} {stack.folder}")


@click.command("rm", short_help="Remove a stack with all its data.")
@click.argument("project", required=False, type=click.Path(path_type=Path))
@click.option(
    "--all", "all_projects", is_flag=True, help="Remove the stacks of all projects, except those that are running."
)
def rm_command(project: Path | None, all_projects: bool) -> None:
    """Remove the stack of PROJECT with all its data: runs, event log, the playbooks' database.

    PROJECT is the folder of a project, which may no longer exist. Default: this folder. A running stack is not
    removed: stop it first with `noetl dev down`.
    """
    if project and all_projects:
        raise click.UsageError("name a project or give --all, not both")
    if not (project or all_projects) and HOME_VARIABLE in os.environ:
        raise click.UsageError(f"{HOME_VARIABLE} names {Home().root}: remove that folder yourself, or name a project")
    folders = list(_folders()) if all_projects else [stack_folder(project or Path())]
    if not all_projects and not folders[0].exists():
        raise StackError(f"there is no stack of {(project or Path()).absolute()}")
    not_removed = [folder for folder in folders if not _remove(folder)]
    if not_removed:
        sys.exit(FAILED)


def _folders() -> Iterable[Path]:
    folder = stacks_folder()
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else ()


def _describe_stack(folder: Path) -> ListedStack:
    home = Home(folder)
    try:
        check_folder(folder)
        owner = home.owner()
        state = "not running" if owner is None else f"up ({owner.mode})"
        return ListedStack(folder, home.recorded_project(), _size(folder), state)
    except OSError as error:
        return ListedStack(folder, None, 0, f"refused: {error.strerror}")
    except StackError:
        return ListedStack(folder, None, _size(folder), "locked")


def running_projects() -> list[str]:
    """Return the printable paths of the projects whose stacks are running."""
    projects: list[str] = []
    for folder in _folders():
        home = Home(folder)
        with contextlib.suppress(OSError, StackError):
            check_folder(folder)
            if home.owner() is not None:
                projects.append(_project_name(home.recorded_project()))
    return projects


def _remove(folder: Path) -> bool:
    """Remove a stack and print the outcome. Returns whether it was removed."""
    home = Home(folder)
    try:
        check_folder(folder)
        project = home.recorded_project()
        with home.owner_lock("dev"):
            end_leftovers(home.processes_file)
            shutil.rmtree(folder)
    except StackError as error:
        click.echo(f"not removed: {error}", err=True)
        return False
    except OSError as error:
        click.echo(f"not removed: {home.describe_error(error) or error}", err=True)
        return False
    click.echo(f"removed {folder} of {_project_name(project)}")
    return True


def _project_name(project: Path | None) -> str:
    return printable(str(project)) if project else "(unknown project)"


def _json_fields(stack: ListedStack) -> dict[str, str | int | None]:
    return {
        "folder": str(stack.folder),
        "project": None if stack.project is None else str(stack.project),
        "bytes": stack.size,
        "state": stack.state,
    }


def _size(folder: Path) -> int:
    """Return the bytes of all files below a folder. Files that are removed meanwhile count as empty."""
    size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                size += Path(path, name).lstat().st_size
            except FileNotFoundError:
                continue
    return size
