"""All commands of ``noetl``: one file a command, imported only when it is called."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import sys
import traceback
from typing import NoReturn, cast

import click

from noetl_temporal.cli.exits import FAILED, INTERRUPTED, WRONG
from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.home import Home

__all__ = ["cli", "main"]

COMMANDS = {
    "run": "noetl_temporal.cli.run:run_command",
    "compile": "noetl_temporal.cli.compile:compile_command",
    "schema": "noetl_temporal.cli.schema:schema_command",
    "migrate": "noetl_temporal.cli.migrate:migrate_command",
    "status": "noetl_temporal.cli.status:status_command",
    "events": "noetl_temporal.cli.events:events_command",
    "cancel": "noetl_temporal.cli.stop:cancel_command",
    "terminate": "noetl_temporal.cli.stop:terminate_command",
    "dev": "noetl_temporal.cli.dev:dev_group",
    "worker": "noetl_temporal.cli.worker:worker_command",
    "mirror": "noetl_temporal.cli.mirror:mirror_group",
    "prune": "noetl_temporal.cli.prune:prune_command",
    "ledger": "noetl_temporal.cli.ledger:ledger_group",
    "setup": "noetl_temporal.cli.setup:setup_command",
    "replay": "noetl_temporal.cli.replay:replay_command",
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In reading order: what one needs first stands first."""
        del ctx
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, which knows no names to suggest: the commands are not imported."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, None when there is none."""
        del ctx
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, name = target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="noetl-temporal")
def cli() -> None:
    """Run NoETL playbooks durably on Temporal.

    \b
    noetl run playbook.yaml                 run a playbook here, with nothing to set up
    noetl run playbook.yaml --set city=Oslo change what it works on
    noetl compile playbook.yaml             check a playbook and draw what it compiles to
    noetl migrate playbook.yaml             write a playbook of any year in today's form
    noetl dev up                            keep Temporal, Postgres, a worker and the mirror running
    """


def main() -> NoReturn:
    """Run the command line, and exit. What goes wrong is told in a sentence: no traceback unless NOETL_DEBUG is set."""
    status = _status()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    # Temporal's core has threads that call into the interpreter, to complete futures and to log, and the SDK (1.35) has
    # no way to end them: they go on when all workers and clients are closed. One that meets an interpreter being torn
    # down aborts the process (PyGILState_Release; measured: 5 of 80 exits under load). Everything is closed and flushed
    # by now, so the interpreter is not torn down.
    os._exit(status)


def _status() -> int:
    try:
        returned = cli.main(standalone_mode=False)
        return returned if isinstance(returned, int) else 0
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:
        return _told(error)


def _told(raised: BaseException) -> int:
    error = _cause(raised)
    problem = Home().problem(error) if isinstance(error, OSError) else None
    if problem:
        error = StackError(problem)
    if isinstance(error, StackError) or _is_of_the_deployment(error):
        click.echo(f"Error: {error}", err=True)
        return FAILED if isinstance(error, StackError) else WRONG
    if os.environ.get("NOETL_DEBUG"):
        traceback.print_exception(error)
    told = f"{type(error).__name__}: {error}"
    click.echo(f"Error: {told}\nThis is a bug; NOETL_DEBUG=1 shows where.", err=True)
    return FAILED


def _cause(error: BaseException) -> BaseException:
    """Without the group that a task group wraps around what is raised inside of it."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return _cause(group.exceptions[0]) if len(group.exceptions) == 1 else group


def _is_of_the_deployment(error: BaseException) -> bool:
    """Without importing what raises it: a command that does not speak to Temporal need not wait for it."""
    deployment = sys.modules.get("noetl_temporal.deployment")
    return deployment is not None and isinstance(error, deployment.DeploymentError)
