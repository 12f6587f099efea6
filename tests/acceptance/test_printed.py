"""What commands print of names, errors and results of others has nothing in it that a terminal obeys."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.site import NOETL, ROOT, Site

LINK = "\x1b]8;;http://evil.example\x07here\x1b]8;;\x07"
ATTACKS = {
    "clear the screen": "\x1b[2J\x1b[H",
    "hide text": "\x1b[8mhidden\x1b[0m",
    "set the title": "\x1b]0;title\x07",
    "link": LINK,
    "one-byte CSI": "\x9b31m",
    "write over": "over\rwritten\x08\x7f",
    "read backwards": "user\u202etxt.exe\u2066\u200f",
    "split a line": "a\u2028b\u2029c\x85d",
}
HOSTILE = " ".join(ATTACKS.values())
NAME = "pay\u202e\u2066 [link=http://evil.example]x[/link] :smile:"
"""A step may be called so: control characters alone are refused in names."""

OBEYED_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
RICHS_OWN = re.compile(r"\x1b\[(?!8m)[\d;]*m|\x1b\[\?25[hl]|\x1b\[\d*[AK]|\r")
"""Colours, and the movements of a table that is redrawn in place."""

UNGUARDED_PROGRAM = """
from noetl_temporal.cli import commands, console
commands.make_streams_printable = lambda: None
console.printable = str
commands.main()
"""

PLAYBOOK = f"""apiVersion: noetl.io/v10
kind: Playbook
metadata: {{name: hostile, path: tests/hostile}}
workload: {{given: ""}}
workflow:
  - step: {json.dumps(NAME)}
    desc: {json.dumps(HOSTILE)}
    tool: {{kind: noop, result: "{{{{ workload.given }}}}"}}
    next:
      arcs:
        - {{step: fails, when: {json.dumps("{{ workload.given != '" + HOSTILE.replace(chr(13), "") + "' }}")}}}
        - {{step: fails}}
  - step: fails
    tool:
      kind: python
      code: |
        def main():
            raise ValueError({HOSTILE!a})
"""


def bytes_printed(site: Site, *args: str) -> str:
    """All that a command prints into pipes."""
    done = subprocess.run([*NOETL, *args], cwd=site.folder, capture_output=True, timeout=120)
    return (done.stdout + done.stderr).decode()


def on_terminal(site: Site, *args: str) -> str:
    """What a terminal is sent, on both of its streams."""
    ours, theirs = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    surroundings = {**variables, "COLUMNS": "200", "TERM": "xterm-256color"}
    terminal_output = b""
    with subprocess.Popen([*NOETL, *args], cwd=site.folder, stdout=theirs, stderr=theirs, env=surroundings):
        os.close(theirs)
        while chunk := _read(ours):
            terminal_output += chunk
    os.close(ours)
    return RICHS_OWN.sub("", terminal_output.decode())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux says so that nobody writes to it any more
        return b""


@pytest.mark.parametrize("form", ["tree", "mermaid", "dot", "json", "svg", "html"])
def test_a_graph_in_every_form(bare: Site, form: str) -> None:
    playbook = str(bare.write(PLAYBOOK))
    for printed in (bytes_printed, on_terminal):
        output = printed(bare, "compile", playbook, "--format", form)
        assert "fails" in output
        assert not OBEYED_CHARACTERS.search(output)


@pytest.mark.parametrize(
    "args",
    [
        ("--explain", NAME),
        ("--forecast",),
        ("--guarantees",),
        ("--diagnostics", "json"),
        ("--diagnostics", "sarif"),
        ("--forecast", "--format", "json"),
        ("--guarantees", "--format", "json"),
    ],
)
def test_other_output_about_a_graph_is_printable(bare: Site, args: tuple[str, ...]) -> None:
    output = bytes_printed(bare, "compile", str(bare.write(PLAYBOOK)), *args)
    assert output
    assert not OBEYED_CHARACTERS.search(output)


def test_json_of_a_graph_has_the_same_value_on_a_terminal(bare: Site) -> None:
    done = bare.noetl("compile", str(bare.write(PLAYBOOK)), "--format", "json")
    assert json.loads(done.stdout)["steps"][NAME]["desc"] == HOSTILE


@pytest.mark.parametrize(
    "args",
    [
        ("compile", "ATTACK"),
        ("run", "ATTACK"),
        ("run", "playbook.yaml", "--payload", "@ATTACK"),
        ("status", "ATTACK"),
        ("migrate", "ATTACK"),
        ("ATTACK",),
        ("compile", "--ATTACK"),
    ],
    ids=" ".join,
)
def test_errors_about_arguments_are_printable(bare: Site, args: tuple[str, ...]) -> None:
    bare.write(PLAYBOOK)
    output = bytes_printed(bare, *(arg.replace("ATTACK", HOSTILE) for arg in args))
    assert r"a\u2028b\u2029c\x85d" in output, "not all of it is quoted"
    assert not OBEYED_CHARACTERS.search(output)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(
    "args",
    [
        ("run", "playbook.yaml", "--set", "ATTACK"),
        ("run", "playbook.yaml", "--set", "given=[ATTACK"),
        ("run", "playbook.yaml", "--payload", '{"ATTACK": 1}'),
    ],
    ids=" ".join,
)
def test_errors_that_depend_on_the_argument(bare: Site, args: tuple[str, ...], attack: str) -> None:
    """What is quoted of it, and whether it is an error, depends on its length and its characters."""
    bare.write(PLAYBOOK)
    output = bytes_printed(bare, *(arg.replace("ATTACK", ATTACKS[attack]) for arg in args))
    assert output
    assert not OBEYED_CHARACTERS.search(output)


def test_a_finding_of_a_file_is_one_line_however_the_file_is_called(bare: Site) -> None:
    file = bare.write("kind: Playbook\n", f"a\n::error::{ATTACKS['clear the screen']}.yaml")
    first, *_ = bare.noetl("compile", str(file.relative_to(bare.folder))).stderr.splitlines()
    assert first.startswith(r"a ::error::\x1b[2J\x1b[H.yaml:1:1: error[")


def test_a_migrated_playbook_is_exact_in_a_pipe_and_printable_on_a_terminal(bare: Site) -> None:
    bare.write(f"# user\u202etxt\n{PLAYBOOK}")
    assert bare.noetl("migrate", "playbook.yaml").stdout.startswith("# user\u202etxt\n")
    assert on_terminal(bare, "migrate", "playbook.yaml").startswith("# user\\u202etxt\n")
    assert not OBEYED_CHARACTERS.search(on_terminal(bare, "migrate", "playbook.yaml"))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_on_a_stream_of_any_encoding(bare: Site, encoding: str) -> None:
    bare.write(PLAYBOOK)
    done = subprocess.run(
        [*NOETL, "compile", "playbook.yaml"],
        cwd=bare.folder,
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        timeout=60,
    )
    assert done.returncode == 0
    assert not OBEYED_CHARACTERS.search(done.stdout.decode("latin-1" if encoding == "latin-1" else "utf-8"))


@pytest.mark.parametrize("attack", [name for name in ATTACKS if name != "link"])
def test_the_name_of_a_wrong_file(bare: Site, attack: str) -> None:
    """With its control: without the guard a terminal obeys it."""
    bare.write(PLAYBOOK)
    file = bare.write("{", f"{ATTACKS[attack]}.json").name
    args = ["run", "playbook.yaml", "--payload", f"@{file}"]
    assert not OBEYED_CHARACTERS.search(bytes_printed(bare, *args))
    done = subprocess.run(
        [sys.executable, "-c", UNGUARDED_PROGRAM, *args], cwd=bare.folder, capture_output=True, timeout=60
    )
    assert OBEYED_CHARACTERS.search(done.stderr.decode())


# ---- runs -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ran(site: Site, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, dict[str, Any]]:
    """A run whose result, names and error are hostile: what it printed, its playbook, and its account."""
    playbook = tmp_path_factory.mktemp("hostile") / "playbook.yaml"
    playbook.write_text(PLAYBOOK, encoding="utf-8")
    output = bytes_printed(site, "run", str(playbook), "--payload", json.dumps({"given": HOSTILE}))
    report = json.loads(site.noetl("status", "--json").stdout)
    return output, playbook, report


@pytest.mark.stack
def test_the_progress_and_the_end_of_a_run(ran: tuple[str, Path, dict[str, Any]]) -> None:
    output, _, report = ran
    assert report["status"] == "failed"
    assert r"\x1b[2J" in output
    assert r"pay\u202e" in output
    assert not OBEYED_CHARACTERS.search(output)


@pytest.mark.stack
@pytest.mark.parametrize("args", [("status",), ("status", "--json"), ("events",), ("events", "--json")])
def test_the_report_of_a_run_is_printable(
    site: Site, ran: tuple[str, Path, dict[str, Any]], args: tuple[str, ...]
) -> None:
    execution = str(ran[2]["execution_id"])
    for printed in (bytes_printed, on_terminal):
        output = printed(site, args[0], execution, *args[1:])
        assert "2J" in output
        assert not OBEYED_CHARACTERS.search(output)


@pytest.mark.stack
def test_json_of_a_run_has_the_unchanged_texts(site: Site, ran: tuple[str, Path, dict[str, Any]]) -> None:
    execution = str(ran[2]["execution_id"])
    report = json.loads(site.noetl("status", execution, "--json").stdout)
    assert NAME in report["steps"]
    assert any(ATTACKS["link"] in failure["message"] for failure in report["failures"])
    rows = [json.loads(line) for line in site.noetl("events", execution, "--json").stdout.splitlines()]
    assert any(row["node_name"] == NAME for row in rows)


@pytest.mark.stack
def test_progress_on_a_terminal(site: Site, ran: tuple[str, Path, dict[str, Any]]) -> None:
    output = on_terminal(site, "run", str(ran[1]), "--payload", json.dumps({"given": HOSTILE}))
    assert "http://evil.example" in output
    assert not OBEYED_CHARACTERS.search(output)


@pytest.mark.stack
def test_control_without_the_guard_the_end_of_a_run_is_obeyed(
    site: Site, ran: tuple[str, Path, dict[str, Any]]
) -> None:
    status = [sys.executable, "-c", UNGUARDED_PROGRAM, "status", str(ran[2]["execution_id"])]
    done = subprocess.run(status, cwd=site.folder, capture_output=True, timeout=60)
    assert is_obeyed(done.stdout.decode(), ["\x1b[2J", "\u202e"])


def is_obeyed(output: str, attacks: Iterable[str]) -> bool:
    """Whether all of them reach the terminal."""
    return all(attack in output for attack in attacks)


def test_lines_of_the_event_log_have_no_spaces_at_their_end(site: Site) -> None:
    execution = str(site.run(site.write((ROOT / "dev/examples/hello.yaml").read_text(), "hello.yaml"))["execution_id"])
    lines = site.noetl("events", execution).stdout.splitlines()
    assert len(lines) > 3
    assert [line for line in lines if line != line.rstrip()] == []
    assert f"neither Temporal nor the event log has a run {int(execution) + 1}" in (
        site.noetl("status", str(int(execution) + 1)).stderr
    )
