"""Problems that prevent tests from running are reported at their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from noetl_compiler.language.constructs.playbook_tests import TEST_CONSTRUCTS
from noetl_compiler.language.tools import KINDS, PSEUDO_KINDS
from noetl_compiler.schema.playbook_tests import schema_of_tests
from noetl_temporal.playbook_tests.suites import suite_files

from .trials import loaded

SCHEMA: Any = Draft7Validator(schema_of_tests())
ONE_STEP = """
workflow:
  - step: start
    tool: {name: work, kind: python, code: result = 1}
"""


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        ("tests: [{name: a, expects: {}}]", ['1:19: error[NT102]: unknown key "expects" in a test']),
        ("tests: [{expect: {}}]", ['1:9: error[NT104]: a test needs "name"']),
        ("{}", ['1:1: error[NT104]: a test file needs "tests"']),
        ("[]", ["1:1: error[NT103]: a test file is a mapping, not a list"]),
        (
            "tests: [{name: a, stubs: [{step: strat}], expect: {}}]",
            ['1:34: error[NT203]: the playbook has no step "strat"'],
        ),
        (
            "tests: [{name: a, stubs: [{step: start, task: wrok}], expect: {}}]",
            ['1:47: error[NT204]: the step "start" has no task "wrok"'],
        ),
        (
            "tests: [{name: a, expect: {route: [start, edn]}}]",
            ['1:43: error[NT203]: the playbook has no step "edn"'],
        ),
        (
            "tests: [{name: a, stubs: [{step: start, result: 1, error: x}], expect: {}}]",
            ['1:59: error[NT109]: "error" beside "result"'],
        ),
        (
            "tests: [{name: a, stubs: [{step: start, takes: soon}], expect: {}}]",
            ['1:48: error[NT106]: expected a duration such as 30 or "30s"'],
        ),
        (
            "tests: [{name: a, stubs: [{step: start, iteration: first}], expect: {}}]",
            ['1:52: error[NT103]: "iteration" must be an integer of 0 or more, not a string'],
        ),
        (
            "tests: [{name: a, stubs: [{step: start, http: {status: 200}}], expect: {}}]",
            ['1:27: error[NT106]: "http" answers calls of http, and this stub is for python'],
        ),
        (
            "tests: [{name: a, expect: {status: done}}]",
            ['1:36: error[NT106]: invalid value "done" for "status"'],
        ),
        (
            "tests: [{name: a, expect: {failures: [{step: start, knd: a}], events: [{node: a}]}}]",
            [
                '1:53: error[NT102]: unknown key "knd" in an expected failure',
                '1:72: error[NT104]: an expected event needs "type"',
            ],
        ),
        ("playbook: other.yaml\ntests: [{name: a, expect: {}}]", ['1:11: error[NT001]: there is no playbook "']),
        ("tests: [", ["1:9: error[NT002]: "]),
    ],
)
def test_invalid_test_files_are_reported(tmp_path: Path, tests: str, expected: list[str]) -> None:
    suite = loaded(tmp_path, ONE_STEP, tests)
    assert suite.graph is None
    lines = [
        str(diagnostic).removeprefix(f"{suite.file}:")
        for result in suite.invalid_files
        for diagnostic in result.diagnostics
    ]
    assert len(lines) == len(expected)
    assert all(line.startswith(start) for line, start in zip(lines, expected, strict=True)), lines


def test_a_playbook_with_errors_is_not_tested(tmp_path: Path) -> None:
    suite = loaded(tmp_path, "workflow: [{step: start, tol: {}}]", "tests: [{name: a, expect: {}}]")
    assert suite.graph is None
    assert [diagnostic.file for result in suite.invalid_files for diagnostic in result.diagnostics] == [
        str(tmp_path / "p.yaml")
    ]


def test_a_playbook_that_cannot_run_is_not_tested(tmp_path: Path) -> None:
    kind = next(name for name, tool in KINDS.items() if not tool.has_executor and name not in PSEUDO_KINDS)
    playbook = f"workflow: [{{step: start, tool: {{kind: {kind}}}}}]"
    suite = loaded(tmp_path, playbook, "tests: [{name: a, stubs: [{step: start}], expect: {}}]")
    assert suite.graph is None
    assert kind in "\n".join(
        [*suite.unsupported, *(str(diagnostic) for result in suite.invalid_files for diagnostic in result.diagnostics)]
    )


def test_files_are_found_below_a_folder_each_once(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    files = [tmp_path / "a.test.yaml", tmp_path / "below" / "b.test.yml"]
    for file in (*files, tmp_path / "c.yaml"):
        file.write_text("")
    assert suite_files([tmp_path, files[0]]) == files


# ---- the schema ------------------------------------------------------------------------------------------------------


OF_EACH_KIND = """
workflow:
  - step: start
    tool:
      - {name: work, kind: python, code: result = 1}
      - {name: get, kind: http, url: "http://api.test"}
      - {name: select, kind: postgres, auth: db, query: SELECT 1}
      - {name: wait, kind: wait, signal: paid}
      - {name: ask, kind: approval}
"""
EVERYTHING = """
playbook: p.yaml
tests:
  - name: all keys
    payload: {a: 1}
    stubs:
      - {step: start, task: work, iteration: 0, page: 1, attempt: 1, times: 2, result: {a: 1}, takes: 3s}
      - {step: start, rows: [{a: 1}], sink_error: {message: no, kind: sql_integrity, code: "23505", retryable: true}}
      - {step: start, http: {status: 503, headers: {Retry-After: 3}, body: [1]}}
      - {step: start, error: no}
      - {step: start, error: {kind: rate_limit, retry_after: 2}}
    requests:
      - {do: signal, name: paid, key: "8", data: {a: 1}, at: 2h}
      - {do: approve, step: start, iteration: 0, by: ann, reason: why, form: {a: 1}, when: waiting}
    expect:
      status: failed
      route: [start, ...]
      steps: [start]
      result: null
      results: {start: ...}
      stored: {t: []}
      delays: [1, 0.5]
      events: [step.done, {type: step.failed, node: start, status: FAILED, result: 1, error: a, meta: {a: 1}}]
      failures: [{step: start, task: work, iteration: 0, kind: a, message: b, handled: true}]
      calls: [{step: start, task: work, iteration: 0, page: 1, times: 1, attempts: 2, config: {}, input: {a: 1}}]
"""


def test_schema_and_reader_take_every_key(tmp_path: Path) -> None:
    document = yaml.safe_load(EVERYTHING)
    SCHEMA.validate(document)
    assert loaded(tmp_path, OF_EACH_KIND, EVERYTHING).invalid_files == ()
    for construct in TEST_CONSTRUCTS:
        assert all(f"{key.name}:" in EVERYTHING for key in construct.keys), construct.name


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "tests: []",
        "tests: [{name: a}]",
        "tests: [{name: a, expect: {}, x: 1}]",
        "tests: [{name: a, expect: {status: done}}]",
        "tests: [{name: a, expect: {}, stubs: [{task: work}]}]",
        "tests: [{name: a, expect: {}, stubs: [{step: start, iteration: one}]}]",
        "tests: [{name: a, expect: {}, stubs: [{step: start, http: {code: 1}}]}]",
        "tests: [{name: a, expect: {}, requests: [{step: start}]}]",
        "tests: [{name: a, expect: {}, requests: [{do: stop}]}]",
    ],
)
def test_schema_and_reader_refuse_the_same(tmp_path: Path, text: str) -> None:
    assert not SCHEMA.is_valid(yaml.safe_load(text))
    assert loaded(tmp_path, ONE_STEP, text).invalid_files
