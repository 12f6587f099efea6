"""A failure of Python code or SQL stands at its line of the YAML."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.machine.failure_log import Failure

from .driver import run_text

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: lines}\nworkflow:\n"

LITERAL = """  - step: start
    tool:
      kind: python
      code: |
        a = 1
        for n in range(3):
            a / 0
"""
INDENTED_CODE = LITERAL.replace("code: |", "code: |2  # why")
BLANK = LITERAL.replace("code: |\n", "code: |\n\n\n")
FOLDED_CODE = """  - step: start
    tool:
      kind: python
      code: >
        a = 1

        b = 1 / 0
"""
QUOTED_CODE = """  - step: start
    tool: {kind: python, code: "a = 1 / 0"}
"""
ESCAPED_CODE = """  - step: start
    tool: {kind: python, code: "a = 1\\n\\nb = 1 / 0"}
"""
FLAT = """  - step: start
    tool: python
    code: |
      a = 1
      a / 0
    next: [{step: end}]
  - step: end
"""
WORKBOOK = """  - step: start
    tool: {kind: workbook, name: divide}
workbook:
  - name: divide
    tool: python
    code: |
      1 / 0
"""
SPLICED_CODE = """  - step: start
    tool:
      kind: python
      code: |
        a = {{
          1 }}
        a / 0
"""


SQL = """  - step: start
    tool:
      kind: postgres
      command: |
        select 1;
        select {{ workload.column }}
          from nowhere
workload: {column: COLUMN}
"""
QUERIES = """  - step: start
    tool:
      kind: postgres
      commands:
        - select 1
        - select nope
"""


def failure_of(text: str, line: Any) -> Failure:
    def answer(call: ToolCall) -> ToolReport:
        error = {"kind": "exception", "message": "division by zero", "retryable": False}
        if call.kind == "postgres":
            return ToolReport({"status": "error", "error": error, "pg": {"position": 8, "line": line}})
        facts = {"exception": "ZeroDivisionError", "traceback": "", "line": line}
        return ToolReport(
            {"status": "error", "error": error, "py": facts} if call.kind == "python" else {"status": "ok"}
        )

    run = run_text(HEAD + text, answer)
    assert run.finish.failures.cause is not None
    cause = run.finish.failures.cause
    places = [(at["line"], at["col"]) for event in run.of("task.failed") for at in [event.meta["source"]]]
    assert places == [(cause.line, cause.col)], "the log has the same place"
    return cause


@pytest.mark.parametrize(
    ("text", "line", "place"),
    [
        (LITERAL, 3, (11, 13)),
        (LITERAL, 1, (9, 9)),
        (INDENTED_CODE, 1, (9, 9)),
        (BLANK, 5, (13, 13)),
        (QUOTED_CODE, 1, (6, 32)),
        (FLAT, 2, (9, 7)),
        (WORKBOOK, 1, (11, 7)),
        (SPLICED_CODE, 3, (11, 9)),
        (SQL, 3, (11, 11)),
        (SQL, 2, (10, 9)),
    ],
)
def test_the_line_of_the_code(text: str, line: int, place: tuple[int, int]) -> None:
    failure = failure_of(text, line)
    assert (failure.line, failure.col) == place
    assert (HEAD + text).splitlines()[failure.line - 1][failure.col - 1 :].strip(), "something stands there"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (FOLDED_CODE, (8, 13)),
        (ESCAPED_CODE, (6, 32)),
        (QUERIES, (7, 7)),
        (SQL.replace("COLUMN", '"a,\\nb"'), (9, 9)),
    ],
)
def test_code_without_lines_of_the_yaml_is_located_at_its_start(text: str, place: tuple[int, int]) -> None:
    failure = failure_of(text, 2)
    assert (failure.line, failure.col) == place


@pytest.mark.parametrize("line", [None, 0, -1, 4, 10**9, "3", 2.0])
def test_a_line_that_the_code_does_not_have(line: Any) -> None:
    task = failure_of(LITERAL, None)
    assert failure_of(LITERAL, line) == task
    assert task.line < 9


def test_a_template_of_a_sink_that_fails_is_named_by_its_own_place() -> None:
    text = """  - step: start
    tool:
      kind: noop
      sink:
        kind: duckdb
        table: t
        data: {n: "{{ output.data.absent }}"}
"""

    def answer(call: ToolCall) -> ToolReport:
        span = list(msgspec.to_builtins(call.sinks[0].config.templates["/data/n"]))
        return ToolReport({"status": "error", "error": {"kind": "template", "message": "no"}, "span": span})

    run = run_text(HEAD + text, answer)
    cause = run.finish.failures.cause
    assert cause is not None
    assert (HEAD + text).splitlines()[cause.line - 1][cause.col - 1 :].startswith("{{ output.data.absent }}")
    assert [event.meta["source"]["line"] for event in run.of("task.failed")] == [cause.line]


SINKS = """  - step: start
    tool:
      kind: python
      code: |
        result = {"n": 1}
      sink:
        - kind: postgres
          table: a
        - kind: postgres
          statement: insert into b values (:n)
"""


@pytest.mark.parametrize(("index", "line"), [(0, 11), (1, 13)])
def test_a_failed_sink_is_located_at_the_sink_and_not_at_a_line_of_the_code(index: int, line: int) -> None:
    def answer(call: ToolCall) -> ToolReport:
        error = {"kind": "sql_42", "message": "sink postgres: no", "retryable": False}
        facts = {"position": 1, "line": 1}
        return ToolReport({"status": "error", "error": error, "pg": facts, "meta": {"sink": call.sinks[index].key}})

    run = run_text(HEAD + SINKS, answer)
    cause = run.finish.failures.cause
    assert cause is not None
    assert cause.line == line
