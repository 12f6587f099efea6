"""What is shown of a failure: the line of the playbook, and the response of the server."""

from __future__ import annotations

import msgspec
import pytest

from noetl_compiler import compile_or_raise
from noetl_compiler.graph import Span
from noetl_temporal.cli.playbook import Playbook
from noetl_temporal.machine.failure_log import Failure
from tests.acceptance.site import Site

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: fails, path: tests/fails}\nworkflow:\n"

PYTHON = """  - step: start
    tool:
      kind: python
      input: {rows: [3, 0]}
      code: |
        total = 0
        for row in rows:
            total += 6 / row
        result = total
"""
SQL = """  - step: start
    tool:
      kind: postgres
      auth: pg_local
      command: |
        select 1;
        select a
          from nowhere
"""
NOWHERE = 'relation "nowhere" does not exist at line 2, column 8 of the statement: from nowhere'
SLOW = """  - step: start
    tool: {kind: postgres, auth: pg_local, command: "select pg_sleep(30)", spec: {timeout: 1}}
"""
KILLED_STEP = """  - step: start
    tool:
      kind: python
      code: |
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
        result = 1
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            PYTHON,
            [
                "playbook.yaml:12:13: start/start_task: ZeroDivisionError: division by zero (line 3 of the code)",
                "   |",
                "12 |             total += 6 / row",
                "   |             ^~~~~~~~~~~~~~~~",
            ],
        ),
        (
            SQL,
            [f"start/start_task: {NOWHERE} (SQLSTATE 42P01)"],
        ),
        (SLOW, ["start/start_task: select pg_sleep(30): timed out after 1 s"]),
        (KILLED_STEP, ["start/start_task: the process ended without a result (killed by SIGKILL)"]),
    ],
    ids=["python", "sql", "timeout", "signal"],
)
def test_a_failure_and_its_line(site: Site, text: str, expected: list[str]) -> None:
    done = site.noetl("run", str(site.write(HEAD + text)))
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    [at] = [index for index, line in enumerate(lines) if expected[0] in line]
    lines_shown = [lines[at][lines[at].index(expected[0]) :], *lines[at + 1 : at + len(expected)]]
    assert lines_shown == expected, done.stdout


def test_a_credential_in_the_line_is_masked() -> None:
    text = "a\nuser: me, password: hunter2\n"
    playbook = Playbook(compile_or_raise(HEAD + SLOW, "p.yaml"), text, (Span(2, 21, 2, 28),))
    failure = Failure("start", "no", file="p.yaml", line=2, col=1)
    assert playbook.excerpt(failure) == ["  |", "2 | user: me, password: *******", "  | ^" + "~" * 26]
    elsewhere = [msgspec.structs.replace(failure, file="q.yaml"), msgspec.structs.replace(failure, line=0)]
    assert [playbook.excerpt(excerpt_line) for excerpt_line in elsewhere] == [[], []]
