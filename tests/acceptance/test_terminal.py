"""``noetl compile`` on a terminal: broken to its width, in colours where it has any."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.acceptance.site import NOETL, ROOT

ETL = str(ROOT / "dev/examples/etl.yaml")
COLOUR = re.compile(r"\x1b\[(?:1;)?3\d")


def on_terminal(*args: str, errors: bool = False, environment: Mapping[str, str] | None = None) -> str:
    """What a terminal of 60 columns is sent: the command's output, or its ``errors``."""
    ours, theirs = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    surroundings = {**variables, "COLUMNS": "60", "TERM": "xterm-256color", **(environment or {})}
    out, err = (subprocess.DEVNULL, theirs) if errors else (theirs, subprocess.DEVNULL)
    with subprocess.Popen([*NOETL, *args], stdout=out, stderr=err, env=surroundings) as running:
        os.close(theirs)
        terminal_output = b""
        while chunk := _read(ours):
            terminal_output += chunk
    os.close(ours)
    assert running.returncode == 0
    return terminal_output.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux says so that nobody writes to it any more
        return b""


@pytest.mark.parametrize("args", [(), ("--explain", "fetch_all")])
def test_a_tree_is_as_wide_as_the_terminal(args: tuple[str, ...]) -> None:
    terminal_output = on_terminal("compile", ETL, *args)
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in terminal_output.splitlines()]
    assert 50 < max(map(len, lines)) <= 60
    assert COLOUR.search(terminal_output)


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_without_colours_where_none_are_wanted(environment: dict[str, str]) -> None:
    assert not COLOUR.search(on_terminal("compile", ETL, environment=environment))


@pytest.mark.parametrize("form", ["json", "svg", "mermaid"])
def test_machine_readable_output_is_not_escaped(form: str) -> None:
    assert "\x1b" not in on_terminal("compile", ETL, "--format", form)


@pytest.mark.parametrize(
    ("environment", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)], ids=str
)
def test_findings_show_their_severity_in_colour(environment: dict[str, str], is_coloured: bool, tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    long = "a" * 60
    file.write_text(
        f"metadata: {{name: x}}\nworkload: {{{long}: NO}}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]\n"
    )
    terminal_output = on_terminal("compile", str(file), errors=True, environment=environment)
    plain = re.sub(r"\x1b\[[\d;]*m", "", terminal_output)
    assert f"\r\n2 | workload: {{{long}: NO}}\r\n" in plain  # nothing is wrapped
    assert ": warning[NT113]: the value NO is read as false" in plain
    assert bool(COLOUR.search(terminal_output)) is is_coloured
