"""What a command imports is most of what a short one costs: each loads only what it needs."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from noetl_temporal.cli.commands import COMMANDS, cli
from noetl_temporal.cli.importing import importing
from tests.acceptance.site import Site

PROGRAM = """
import os, sys
from pathlib import Path
from noetl_temporal.cli.main import main

def leave(status, really=os._exit):
    Path(listed).write_text("\\n".join(sys.modules))
    really(status)

listed, sys.argv[1:] = sys.argv[1], sys.argv[2:]
os._exit = leave
main()
"""
"""``noetl``, which writes down what was loaded when it ends."""

TOOLS = {
    "duckdb",
    "httpx",
    "sqlglot",
    "noetl_activities.http.tool",
    "noetl_activities.python.tool",
    "noetl_activities.postgres.tool",
}
COMPILER = {"jinja2", "yaml", "noetl_compiler.phases", "noetl_compiler.templates"}
WORKER = {
    "opentelemetry",
    "pydantic",
    "temporalio.worker",
    "noetl_temporal.machine.engine",
    "noetl_temporal.mirror.store",
    "noetl_temporal.workflows.definitions",
}
SERVERS = {"noetl_temporal.stack.owner", "noetl_temporal.stack.postgres"}
SERVING = TOOLS | WORKER | SERVERS

HELLO = """apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: loaded, path: tests/loaded}
workflow:
  - step: start
    tool: {kind: noop}
"""


def loaded_modules(site: Site, *args: str) -> set[str]:
    """The modules that the command had loaded when it ended well."""
    module_list = site.folder / "modules.txt"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(module_list), *args],
        cwd=site.folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return set(module_list.read_text().splitlines())


@pytest.mark.parametrize("args", [["--help"], ["--version"]])
def test_a_list_of_commands_needs_none_of_them(bare: Site, args: list[str]) -> None:
    modules = loaded_modules(bare, *args)
    assert modules & (SERVING | COMPILER | {"asyncio", "asyncpg", "msgspec", "rich", "temporalio"}) == set()
    assert {
        f"noetl_temporal.cli.{command.target.partition(':')[0]}" for command in COMMANDS.values()
    } & modules == set()


def test_the_list_of_commands_has_the_summary_of_each() -> None:
    with cli.make_context("noetl", ["run"], resilient_parsing=True) as context:
        for name, summary in COMMANDS.items():
            command = cli.get_command(context, name)
            assert command is not None
            assert (command.name, command.get_short_help_str(limit=500)) == (name, summary.help)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_needs_neither_temporal_nor_a_database(bare: Site, name: str) -> None:
    assert loaded_modules(bare, name, "--help") & (SERVING | {"asyncpg", "temporalio"}) == set()


FRONT_ENDS = {"noetl_compiler.dialects.v1.step", "noetl_compiler.dialects.legacy", "noetl_compiler.dialects.case.step"}


def test_only_the_front_end_of_the_dialect_is_loaded(bare: Site) -> None:
    modules = loaded_modules(bare, "compile", str(bare.write(HELLO)))
    assert modules & (FRONT_ENDS | {"noetl_compiler.dialects.v10"}) == {"noetl_compiler.dialects.v10"}


def test_compiling_needs_the_compiler_alone(bare: Site) -> None:
    modules = loaded_modules(bare, "compile", str(bare.write(HELLO)))
    assert modules >= COMPILER
    assert modules & (SERVING | {"asyncio", "asyncpg", "rich", "temporalio"}) == set()


@pytest.mark.parametrize(
    ("tool", "library"),
    [("{kind: python, code: result = 1}", "pyflakes.checker"), ("{kind: duckdb, query: select 1}", "sqlglot")],
)
def test_code_and_sql_are_read_by_the_library_for_each(bare: Site, tool: str, library: str) -> None:
    modules = loaded_modules(bare, "compile", str(bare.write(HELLO.replace("{kind: noop}", tool))))
    assert modules & {"pyflakes.checker", "sqlglot", "duckdb", "asyncio"} == {library}


@pytest.mark.stack
def test_with_a_running_stack_no_server_modules_are_imported(site: Site, tmp_path: Path) -> None:
    playbook = tmp_path / "loaded.yaml"
    playbook.write_text(HELLO)
    report = site.run(playbook)
    assert loaded_modules(site, "run", str(playbook)) & (SERVING | {"importlib.metadata"}) == set()
    assert loaded_modules(site, "status", str(report["execution_id"])) & (SERVING | COMPILER) == set()
    assert loaded_modules(site, "events", str(report["execution_id"])) & (SERVING | COMPILER | {"temporalio"}) == set()


def test_the_collector_is_held_back_while_modules_are_imported() -> None:
    with importing():
        assert not gc.isenabled()
    assert gc.isenabled()
