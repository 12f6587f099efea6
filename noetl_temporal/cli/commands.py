"""The table of all commands of ``noetl``; the module of a command is imported when it is called."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import sys
import traceback
from typing import NamedTuple, NoReturn

import click

from noetl_temporal.cli.command_errors import cause_of
from noetl_temporal.cli.exits import FAILED, INTERRUPTED, WRONG
from noetl_temporal.cli.importing import importing
from noetl_temporal.cli.printable_stream import make_streams_printable
from noetl_temporal.cli.text_arguments import require_unicode
from noetl_temporal.observability.tracing import export_all
from noetl_temporal.stack.errors import NoStackError, NoSuchRunError, NotStartedError, StackError, WrongArgumentError
from noetl_temporal.stack.home import Home

__all__ = ["COMMANDS", "cli", "main"]


class LazyCommand(NamedTuple):
    """A command that is imported when it is called.

    ``target`` is ``module:name`` in this package. ``help`` repeats the first sentence of the command's help, so that
    the commands can be listed without importing them.
    """

    target: str
    help: str


COMMANDS = {
    "run": LazyCommand("run:run_command", "Run the playbook FILE and wait for its end."),
    "submit": LazyCommand("submit:submit_command", "Start a run of the playbook FILE and return immediately."),
    "wait": LazyCommand("wait:wait_command", "Wait for the end of the run ID, and show how it ended."),
    "list": LazyCommand("list_runs:list_command", "List runs, the latest first."),
    "register": LazyCommand("register:register_command", "Register playbooks in the catalog."),
    "catalog": LazyCommand("catalog:catalog_group", "Show the registered playbooks, their versions and their source."),
    "schedule": LazyCommand("schedule:schedule_group", "Run registered playbooks on schedules."),
    "compile": LazyCommand("compile:compile_command", "Check playbooks and show their graphs."),
    "schema": LazyCommand(
        "schema:schema_command",
        "Print the JSON Schema of playbooks, for completion and validation in editors.",
    ),
    "explain": LazyCommand(
        "explain:explain_command",
        "Explain a playbook key, a tool kind or a diagnostic code, or print a page of the reference.",
    ),
    "migrate": LazyCommand("migrate:migrate_command", "Rewrite playbooks in canonical v10, keeping their comments."),
    "test": LazyCommand(
        "test:test_command", "Run the tests of playbooks: *.test.yaml files, without servers and without delays."
    ),
    "status": LazyCommand("status:status_command", "Show the status of the run ID: steps, attempts, failures, result."),
    "events": LazyCommand("events:events_command", "Show the event log of the run ID, read from Postgres."),
    "logs": LazyCommand("task_logs:logs_command", "Show what the tasks of the run ID print."),
    "signal": LazyCommand("answer:signal_command", "Send the signal NAME to the run ID."),
    "approve": LazyCommand("answer:approve_command", "Approve what the run ID waits for."),
    "reject": LazyCommand("answer:reject_command", "Reject what the run ID waits for."),
    "pause": LazyCommand("pause:pause_command", "Pause the run ID: no call, loop or step starts until noetl resume."),
    "resume": LazyCommand("pause:resume_command", "Resume the run ID, which is paused."),
    "retry": LazyCommand(
        "pause:retry_command", "Retry a held step of the run ID: a step that failed and has on_failure: hold."
    ),
    "skip": LazyCommand(
        "pause:skip_command",
        "Skip the held STEP of the run ID: a step that failed and has on_failure: hold.",
    ),
    "rerun": LazyCommand("rerun:rerun_command", "Run STEP of the run ID and all steps after it again, in a new run."),
    "cancel": LazyCommand(
        "stop:cancel_command", "Cancel the run ID, and return immediately; noetl wait ID waits for its end."
    ),
    "terminate": LazyCommand("stop:terminate_command", "End the run ID immediately, without cleanup."),
    "dev": LazyCommand("dev:dev_group", "Keep Temporal, Postgres, a worker and the mirror running for this folder."),
    "worker": LazyCommand("worker:worker_command", "Run playbooks and tools until stopped."),
    "mirror": LazyCommand("mirror:mirror_group", "Follow Temporal's history into the event log until stopped."),
    "codec-server": LazyCommand(
        "codec_server:codec_server_command",
        "Decrypt values for Temporal's Web UI and the temporal command until stopped.",
    ),
    "prune": LazyCommand("prune:prune_command", "Remove the large values and the logs of old runs from Postgres."),
    "ledger": LazyCommand(
        "ledger:ledger_group", "Print the SQL of the table that SQL calls and sinks need to store rows exactly once."
    ),
    "setup": LazyCommand(
        "setup:setup_command",
        "Prepare Temporal and Postgres for playbooks: register search attributes, create or migrate tables.",
    ),
    "replay": LazyCommand(
        "replay:replay_command", "Check that this build can continue runs started by an earlier build."
    ),
}


class LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of COMMANDS, which begins with the most used."""
        del ctx
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; the error for an unknown one suggests the nearest name."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            matches = difflib.get_close_matches(name, COMMANDS, n=1)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {matches[0]!r}?" if matches else ""))
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name; None if there is none."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].target.partition(":")
        with importing():
            command: click.Command = getattr(importlib.import_module(f"{__package__}.{module}"), name)
        require_unicode(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from COMMANDS; click would import all of them for their help."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="noetl-temporal")
def cli() -> None:
    """Run NoETL playbooks durably on Temporal.

    \b
    noetl run playbook.yaml                 run a playbook here, without any setup
    noetl run playbook.yaml --set city=Oslo set a workload value
    noetl submit playbook.yaml              start a run on a stack that is up, and return
    noetl list                              the latest runs
    noetl compile playbook.yaml             check a playbook and draw what it compiles to
    noetl migrate playbook.yaml             convert an older playbook to v10
    noetl dev up                            keep Temporal, Postgres, a worker and the mirror running
    """


def main() -> NoReturn:
    """Run the command line and exit. Errors are printed as one sentence; NOETL_DEBUG adds a traceback."""
    make_streams_printable()
    status = _exit_status()
    export_all()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    # Temporal's core has threads that call into the interpreter, to complete futures and to log. The SDK (1.35) cannot
    # end them, even when all workers and clients are closed. If one calls while the interpreter is being finalized, the
    # process aborts (PyGILState_Release; measured: 5 of 80 exits under load). Everything is closed and flushed by now,
    # so finalization is skipped.
    os._exit(status)


def _exit_status() -> int:
    try:
        result = cli.main(standalone_mode=False, color=True)  # click would remove half of an escape sequence
        return result if isinstance(result, int) else 0
    except SystemExit as exit_request:
        return exit_request.code if isinstance(exit_request.code, int) else int(exit_request.code is not None)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except Exception as error:
        return _report_error(error)


def _report_error(caught: BaseException) -> int:
    error = cause_of(caught)
    if isinstance(error, OSError):
        error = _stack_folder_error(error)
    if isinstance(error, StackError) or _is_deployment_error(error):
        click.echo(f"Error: {error}", err=True, color=True)
        is_usage_error = isinstance(error, _USAGE_ERRORS) or not isinstance(error, StackError)
        return WRONG if is_usage_error else FAILED
    if os.environ.get("NOETL_DEBUG"):
        traceback.print_exception(error)
    if _is_lost_connection(error):
        click.echo("Error: the connection to Postgres was lost", err=True, color=True)
        return FAILED
    message = f"{type(error).__name__}: {error}"
    click.echo(f"Error: {message}\nThis is a bug; NOETL_DEBUG=1 shows where.", err=True, color=True)
    return FAILED


_USAGE_ERRORS = (NoStackError, NotStartedError, NoSuchRunError, WrongArgumentError)


def _stack_folder_error(error: OSError) -> Exception:
    """Return a StackError for an error of a file in the stack's folder, else the error itself."""
    try:
        problem = Home().describe_error(error)
    except StackError as home_error:
        return home_error
    return StackError(problem) if problem else error


_DEPLOYMENT_ERRORS = {
    "noetl_temporal.deployment": "DeploymentError",
    "noetl_temporal.payloads.encryption": "DecryptionError",
}


def _is_lost_connection(error: BaseException) -> bool:
    """Whether Postgres has closed the connection, as when it crashes or shuts down."""
    if "asyncpg" not in sys.modules:
        return False
    from noetl_temporal.database_errors import is_lost_connection

    return is_lost_connection(error)


def _is_deployment_error(error: BaseException) -> bool:
    """Whether the error is one of the deployment. Their modules are slow to import, so only loaded ones are checked."""
    loaded_modules = ((sys.modules.get(module), name) for module, name in _DEPLOYMENT_ERRORS.items())
    return any(module is not None and isinstance(error, getattr(module, name)) for module, name in loaded_modules)
