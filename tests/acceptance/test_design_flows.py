"""What NoETL's design documents say of retries as policy, of failures on their way to the end, and of what rows have.

Cited are "Retry Handling (Canonical v10)", "Failure Handling Architecture", the "Technical Whitepaper" with its formal
specification, and the tables of "Distributed Loop and Retry Architecture".
"""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from tests.acceptance.site import ROOT, Api, Site

pytestmark = pytest.mark.stack

Json = dict[str, Any]

DESIGNS = ROOT / "tests/acceptance/playbooks/designs"

V1 = "apiVersion: noetl.io/v1\nkind: Playbook\nname: flow\npath: designs/flow\nworkload: {}\nworkflow:\n"
V10 = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: flow, path: designs/flow}\n"


async def _rows(log: asyncpg.Connection, report: Json, view: str = "event") -> list[Json]:
    order = "event_id, ordinal" if view == "event_domain" else "event_id"
    query = f"SELECT to_jsonb(e) FROM noetl.{view} e WHERE execution_id = $1 ORDER BY {order}"
    return [json.loads(row[0]) for row in await log.fetch(query, int(report["execution_id"]))]


def _run(site: Site, text: str, *settings: str) -> Json:
    return site.run(site.write(text, "flow.yaml"), *(part for setting in settings for part in ("--set", setting)))


# ---- Retry Handling (Canonical v10) ----------------------------------------------------------------------------------

FETCH = (
    V10
    + """workload: {api_url: http://127.0.0.1:5555, error: "503"}
workflow:
  - step: start
    tool:
      - fetch_page:
          kind: http
          method: GET
          url: "{{ workload.api_url }}/api/v1/errors"
          params: {error_type: "{{ workload.error }}", retry_after: 0}
          spec:
            timeout: {connect: 5, read: 15}
            policy:
              rules:
                - when: "{{ outcome.status == 'error' and outcome.http.status in [429,500,502,503,504] }}"
                  then: { do: retry, attempts: 3, backoff: exponential, delay: 0.1 }
                - when: "{{ outcome.status == 'error' and outcome.http.status in [401,403] }}"
                  then: { do: fail }
                - when: "{{ outcome.status == 'error' }}"
                  then: { do: retry, attempts: 2, backoff: linear, delay: 0.1 }
                - else:
                    then: { do: continue }
      - transform:
          kind: python
          args: { data: "{{ _prev }}" }
          code: |
            result = data["status_code"]
"""
)


@pytest.mark.parametrize(
    ("error", "decisions"),
    [
        ("503", [("retry", 0, 0.1), ("retry", 0, 0.2), ("fail", 0, None)]),
        ("auth", [("fail", 1, None)]),
        ("404", [("retry", 2, 0.1), ("fail", 2, None)]),
        ("none", [("continue", 3, None)]),
    ],
)
async def test_the_rules_of_a_task_decide_each_attempt(
    site: Site, api: Api, log: asyncpg.Connection, error: str, decisions: list[tuple[str, int, float | None]]
) -> None:
    """1, 2 and 3.1: the first rule that matches; 4: backoff."""
    report = _run(site, FETCH, f"api_url={api.url}", f'error="{error}"')
    rows = [row for row in await _rows(log, report) if row["node_name"] == "fetch_page"]
    policy_rows = [row["meta"] for row in rows if row["event_type"] == "policy.task.evaluated"]
    assert [(meta["do"], meta["rule"], meta.get("delay")) for meta in policy_rows] == decisions
    assert report["status"] == ("completed" if error == "none" else "failed")
    assert report["result"] == (200 if error == "none" else None)


async def test_an_attempt_is_logged_between_its_start_and_the_decision(
    site: Site, api: Api, log: asyncpg.Connection
) -> None:
    """5.2 Detailed attempt flow, 6 Observability: attempts belong to one run of the step."""
    report = _run(
        site,
        FETCH.replace("errors", "flaky").replace("{error_type", "{page: 1, fail_on: '1', error_type"),
        f"api_url={api.url}",
    )
    rows = [row for row in await _rows(log, report) if row["node_name"] == "fetch_page"]
    assert [(row["event_type"], row["meta"].get("retry", {}).get("attempt_number")) for row in rows] == [
        ("task.started", None),
        ("task.attempt.started", 1),
        ("task.attempt.failed", 1),
        ("policy.task.evaluated", 2),
        ("task.attempt.started", 2),
        ("task.attempt.done", 2),
        ("policy.task.evaluated", None),
        ("task.done", None),
    ]
    assert {row["meta"]["step_run_id"] for row in rows} == {"start#1"}


async def test_an_error_of_postgres_is_retried_by_its_code(site: Site, log: asyncpg.Connection) -> None:
    """3.2: outcome.pg.code."""
    text = """workflow:
  - step: start
    tool:
      - store_page:
          kind: postgres
          auth: pg_local
          command: "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{{ workload.code }}'; END $$"
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' and outcome.pg.code in ['40001','40P01'] }}"
                  then: { do: retry, attempts: 3, delay: 0.1 }
                - when: "{{ outcome.status == 'error' }}"
                  then: { do: fail }
"""
    for code, attempts in (("40001", 3), ("22012", 1)):
        report = _run(site, V10 + f"workload: {{code: '{code}'}}\n" + text)
        assert (report["status"], report["steps"]["start"]["attempts"]) == ("failed", attempts)


async def test_an_exception_of_python_is_retried_by_its_message(site: Site) -> None:
    """3.3: outcome.error.message."""
    text = """workflow:
  - step: start
    tool:
      - transform:
          kind: python
          args: { data: "{{ workload.message }}" }
          code: |
            raise ValueError(data)
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' and 'timeout' in (outcome.error.message|lower) }}"
                  then: { do: retry, attempts: 2, backoff: linear, delay: 0.1 }
                - when: "{{ outcome.status == 'error' }}"
                  then: { do: fail }
"""
    for message, attempts in (("Timeout of x", 2), ("other", 1)):
        report = _run(site, V10 + f"workload: {{message: {message}}}\n" + text)
        assert (report["status"], report["steps"]["start"]["attempts"]) == ("failed", attempts)


# ---- Failure Handling Architecture -----------------------------------------------------------------------------------

ONE_STEP = '  - {step: step1, type: python, code: "def main(): return 1", next: step2}\n'
OK = '  - {step: step2, type: python, code: "def main(): return 2"%s}\n'
FAILS = (
    '  - {step: step2, type: python, retry: {max_attempts: 2, initial_delay: 0.1}, code: "def main(): return 1 / 0"}\n'
)
END = '  - {step: end, type: python, code: "def main(): return 3"}\n'


@pytest.mark.parametrize(
    ("workflow", "expected"),
    [
        (ONE_STEP + OK % ", next: end" + END, ["step_completed", "step_completed", "step_completed", "completed"]),
        (ONE_STEP + OK % "", ["step_completed", "step_completed", "step_completed", "completed"]),
        (ONE_STEP + FAILS + END, ["step_completed", "step_failed", "step_completed", "failed"]),
        (ONE_STEP + FAILS, ["step_completed", "step_failed", "step_completed", "failed"]),
    ],
    ids=["success", "no end and no next", "failure", "failure and no end"],
)
async def test_all_paths_converge_at_the_end(
    site: Site, log: asyncpg.Connection, workflow: str, expected: list[str]
) -> None:
    """Event Flow; Testing: the four cases."""
    report = _run(site, V1 + workflow)
    rows = await _rows(log, report, "event_legacy")
    *steps, last = expected
    wanted = [*zip(steps, ("step1", "step2", "end"), strict=True)]
    wanted += [(f"workflow_{last}", "workflow"), (f"playbook_{last}", "designs/flow")]
    ends = {kind for kind, _ in wanted} | {"workflow_failed", "workflow_completed"}
    assert [(row["event_type"], row["node_name"]) for row in rows if row["event_type"] in ends] == wanted
    for row in rows[-2:]:
        assert row["meta"]["evaluated_by_end_step"] is True
        assert (row["meta"]["total_steps"], row["meta"]["failed_steps_count"]) == (
            2 + ("step: end" in workflow),
            int(last == "failed"),
        )


async def test_a_call_whose_attempts_all_fail_fails_its_step_once(site: Site, log: asyncpg.Connection) -> None:
    """Failure Routing: after all retries step_failed with step and error, and no workflow_failed before the end."""
    rows = await _rows(log, _run(site, V1 + ONE_STEP + FAILS + END), "event_legacy")
    kinds = [row["event_type"] for row in rows]
    assert kinds.count("action_failed") == 2
    [failed] = [row for row in rows if row["event_type"] == "step_failed"]
    assert (failed["data"]["step"], failed["status"]) == ("step2", "FAILED")
    assert "ZeroDivisionError" in failed["data"]["error"]
    [start_row] = [row for row in rows if row["event_type"] == "step_started" and row["node_name"] == "end"]
    assert (start_row["meta"]["routed_to_end"], start_row["meta"]["original_failed_step"]) == (True, "step2")
    assert kinds.index("workflow_failed") > rows.index(start_row)


async def test_a_failure_that_cancels_the_others_meets_the_end_after_them(
    site: Site, api: Api, log: asyncpg.Connection
) -> None:
    """Parallel Failure Path: a cancelled step ends its call or is cancelled, begins no other, and the end waits."""
    text = """executor: {spec: {policy: {failure: {mode: fail_fast}}}}
workflow:
  - step: start
    tool: {kind: noop}
    next: {spec: {mode: inclusive}, arcs: [{step: bad}, {step: short}, {step: long}]}
  - {step: bad, tool: {kind: http, url: "{{ workload.api }}/api/v1/errors?error_type=404"}}
  - step: short
    tool:
      - {name: one, kind: http, url: "{{ workload.api }}/api/v1/concurrency/probe?delay_seconds=3"}
      - {name: two, kind: noop}
  - {step: long, tool: {kind: http, url: "{{ workload.api }}/api/v1/concurrency/probe?delay_seconds=50"}}
"""
    report = _run(site, V10 + text, f"api={api.url}")
    rows = await _rows(log, report, "event_legacy")
    ends = {row["node_name"]: row for row in rows if row["event_type"] in ("step_failed", "step_cancelled")}
    assert {name: row["event_type"] for name, row in ends.items()} == {
        "bad": "step_failed",
        "short": "step_cancelled",
        "long": "step_cancelled",
    }
    assert not [row for row in rows if row["node_name"] == "two"]
    [start_row] = [row for row in rows if row["event_type"] == "step_started" and row["node_name"] == "end"]
    assert all(row["event_id"] < start_row["event_id"] for row in ends.values())
    assert [row["event_type"] for row in rows[-2:]] == ["workflow_failed", "playbook_failed"]


# ---- Database Tracking Fields, Event Metadata Column, Event Data Structure -------------------------------------------


async def test_rows_have_what_the_queue_had(site: Site, api: Api, log: asyncpg.Connection) -> None:
    """Queue Metadata: iterator jobs, retries of errors, pages."""
    report = site.run(DESIGNS / "fetch_all_endpoints.yaml", "--set", f"server_url={api.url}")
    rows = await _rows(log, report, "event_legacy")
    for index, row in enumerate(row for row in rows if row["event_type"] == "iteration_started"):
        assert row["meta"]["iterator"] == {
            "parent_execution_id": int(report["execution_id"]),
            "iteration_index": index,
            "total_iterations": 2,
            "iterator_name": "endpoint",
            "mode": "sequential",
        }
    page = next(row for row in rows if row["event_type"] == "retry_scheduled")["meta"]["retry"]
    assert page.keys() == {"type", "attempt_number", "max_attempts", "parent_event_id", "continuation"}
    assert (page["type"], page["attempt_number"], page["max_attempts"]) == ("on_success", 2, 10)
    assert isinstance(page["parent_event_id"], str)
    report = site.run(DESIGNS / "fetch_data.yaml", "--set", f"api_url={api.url}")
    rows = await _rows(log, report, "event_legacy")
    [retry] = [row["meta"]["retry"] for row in rows if row["event_type"] == "retry_scheduled"]
    names = {"type", "attempt_number", "max_attempts", "parent_event_id", "backoff_seconds", "scheduled_at"}
    assert retry.keys() == names
    assert (retry["type"], retry["attempt_number"], retry["max_attempts"]) == ("on_error", 2, 3)
    failed = next(row for row in rows if row["event_type"] == "action_failed")
    assert retry["scheduled_at"] > failed["meta"]["execution"]["completed_at"]


async def test_rows_of_actions_have_the_columns_and_meta_of_the_design(
    site: Site, api: Api, log: asyncpg.Connection
) -> None:
    """Event Data Structure; Event Metadata (Worker-Side)."""
    report = site.run(DESIGNS / "fetch_data.yaml", "--set", f"api_url={api.url}")
    rows = await _rows(log, report, "event_legacy")
    done = next(row for row in rows if row["event_type"] == "action_completed")
    assert done["execution_id"] == int(report["execution_id"])
    assert done["catalog_id"]
    assert (done["node_id"], done["node_name"], done["node_type"]) == ("fetch_data", "fetch_data", "http")
    assert done["status"] == "COMPLETED"
    assert done["duration"] > 0
    assert set(done["data"]) >= {"result", "retry_config", "attempt_number"}
    assert done["meta"]["retry"].keys() >= {"has_config", "attempt_number", "max_attempts", "retry_type"}
    assert done["meta"]["execution"].keys() >= {"duration_seconds", "completed_at"}
    assert done["worker_id"]
    failed = next(row for row in rows if row["event_type"] == "action_failed")
    assert failed["meta"]["execution"]["duration_seconds"] == failed["duration"]
    assert failed["meta"]["error"]["message"] == failed["error"][:500]
    ids = {row["event_id"] for row in rows}
    assert {row["parent_event_id"] for row in rows[1:]} <= ids, "each parent is a row of this vocabulary"


async def test_a_loop_that_stops_before_its_end_has_failed(site: Site, log: asyncpg.Connection) -> None:
    """Event Schema: iterator_failed."""
    text = """workflow:
  - step: start
    loop: {in: [1, 0, 2], iterator: n, spec: {mode: sequential, on_error: fail_fast}}
    tool: {kind: python, input: {n: "{{ n }}"}, code: "result = 1 / n"}
"""
    rows = await _rows(log, _run(site, V10 + text), "event_legacy")
    kinds = [row["event_type"] for row in rows]
    assert (kinds.count("iterator_failed"), kinds.count("iterator_completed")) == (1, 0)
    assert kinds.count("iteration_completed") == 2


LEVELS = """apiVersion: noetl.io/v1
kind: Playbook
metadata: {name: levels, path: designs/levels}
workload: {api: http://127.0.0.1:5555, sizes: [20, 35]}
workflow:
  - step: start
    tool: postgres
    command: |
      DROP TABLE IF EXISTS level_items, level_pages, level_both;
      CREATE TABLE level_items (n INT);
      CREATE TABLE level_pages (data JSONB, paging JSONB);
      CREATE TABLE level_both (data JSONB, paging JSONB)
    next: process_batch
  - step: process_batch
    tool: python
    code: "def main(item): return {'n': item}"
    loop: {collection: "{{ sizes }}", element: item}
    sink: {tool: postgres, table: level_items}
    next: fetch_pages
  - step: fetch_pages
    tool: http
    url: "{{ api }}/api/v1/assessments"
    params: {page: 1, pageSize: 10}
    retry:
      on_success:
        while: "{{ response.paging.hasMore }}"
        next_call: {params: {page: "{{ response.paging.page + 1 }}"}}
    sink: {tool: postgres, table: level_pages, mode: append}
    next: fetch_all
  - step: fetch_all
    tool: http
    url: "{{ api }}/api/v1/assessments"
    params: {page: 1, pageSize: "{{ size }}"}
    loop: {collection: "{{ sizes }}", element: size}
    retry:
      on_success:
        while: "{{ response.paging.hasMore }}"
        next_call: {params: {page: "{{ response.paging.page + 1 }}"}}
    sink: {tool: postgres, table: level_both}
"""


async def test_sinks_without_a_credential_store_at_each_level(
    site: Site, api: Api, playbooks: asyncpg.Connection
) -> None:
    """Sink Configuration: once an iteration, once a page, once for each of both."""
    report = _run(site, LEVELS, f"api={api.url}")
    assert report["status"] == "completed", report["failures"]
    counts = [await playbooks.fetchval(f"SELECT count(*) FROM level_{name}") for name in ("items", "pages", "both")]
    assert counts == [2, 4, 2 + 1]


async def test_a_sink_that_fails_fails_its_attempt_and_its_iteration(
    site: Site, log: asyncpg.Connection, playbooks: asyncpg.Connection
) -> None:
    """Sink as Atomic Transaction; whitepaper 8.3 and 9 of the formal specification."""
    text = """  - step: start
    type: postgres
    command: "DROP TABLE IF EXISTS only_numbers; CREATE TABLE only_numbers (n INT)"
    next: store
  - step: store
    type: python
    loop: {in: ["1", "x", "3", "none"], iterator: n}
    with: {n: "{{ n }}"}
    code: "def main(n): return {'n': n} if n != 'none' else 1 / 0"
    sink: {tool: postgres, table: only_numbers}
"""
    report = _run(site, V1 + text)
    assert report["status"] == "failed"
    assert [row[0] for row in await playbooks.fetch("SELECT n FROM only_numbers ORDER BY n")] == [1, 3]
    rows = await _rows(log, report, "event_legacy")
    statuses = [row["data"]["status"] for row in rows if row["event_type"] == "iteration_completed"]
    assert statuses == ["success", "failed", "success", "failed"]
    failed, _ = (row for row in rows if row["event_type"] == "action_failed")
    assert failed["error"].startswith("sink postgres:")
    domain = await _rows(log, report, "event_domain")
    sinks = [row for row in domain if row["event_type"] == "SinkProcessed"]
    assert [row["status"] for row in sinks] == ["success", "error", "success"], "none after a call that failed"
    assert "invalid input syntax" in sinks[1]["error"]["message"]


# ---- Technical Whitepaper --------------------------------------------------------------------------------------------


async def test_case_and_next_take_the_first_rule_that_matches_and_say_so(site: Site, log: asyncpg.Connection) -> None:
    """5.1 next, 5.2 case: rules in order, several steps, else; CaseStarted, CaseEvaluated, NextEvaluated."""
    text = """  - step: start
    type: python
    code: "def main(): return {'n': 3}"
    case:
      - when: "{{ start.n > 5 }}"
        then: [{step: a}]
      - when: "{{ start.n > 2 }}"
        then: [{step: a}, {step: b}]
      - when: "{{ start.n > 1 }}"
        then: [{step: c}]
      - else: [{step: c}]
  - {step: a, next: [{when: "{{ false }}", then: [{step: c}]}, {else: [{step: d}]}]}
  - {step: b}
  - {step: c}
  - {step: d}
"""
    rows = await _rows(log, _run(site, V1 + text), "event_domain")
    started = [row["node_name"] for row in rows if row["event_type"] == "StepStarted"]
    assert sorted(name for name in started if len(name) == 1) == ["a", "b", "d"]
    case = [row["event_type"] for row in rows if row["node_name"] == "start"]
    assert case[-3:] == ["CaseStarted", "CaseEvaluated", "NextEvaluated"]


async def test_the_case_of_a_failed_step_is_logged_where_a_rule_reads_failures(
    site: Site, log: asyncpg.Connection
) -> None:
    """4.4 case rules: the last error."""
    text = """  - step: start
    type: python
    code: "def main(): return 1 / 0"
    case:
      - when: "{{ last_error is not none and 'WORD' in last_error.message }}"
        then: [{step: repair}]
  - {step: repair}
"""
    for word, status in (("division", "completed"), ("nothing like it", "failed")):
        report = _run(site, V1 + text.replace("WORD", word))
        assert report["status"] == status
        rows = await _rows(log, report, "event_domain")
        case = [row["event_type"] for row in rows if row["node_name"] == "start" and "Case" in row["event_type"]]
        assert case == ["CaseStarted", "CaseEvaluated"]
        assert rows[-1]["event_type"] == "PlaybookProcessed"


async def test_a_loop_clause_has_a_mode_and_a_limit(site: Site, log: asyncpg.Connection) -> None:
    """6.1 Loop model: in, iterator, mode, limit; outputs under the loop's name with _results."""
    text = """  - step: each
    loop: {in: "{{ range(5) | list }}", iterator: item, mode: parallel, limit: 3}
    type: python
    with: {item: "{{ item }}"}
    code: "def main(item): return item * 2"
    next: [{step: show}]
  - step: show
    type: python
    with: {all: "{{ each_results }}"}
    code: "def main(all): return all"
"""
    report = _run(site, V1 + text)
    assert report["result"] == [0, 2, 4]
    rows = await _rows(log, report, "event_domain")
    items = [row for row in rows if row["event_type"] == "LoopIterationFinished"]
    assert {row["iteration_id"] for row in items} == {f"each/1/{n}" for n in range(3)}
    assert sorted(row["output"]["value"] for row in items) == [0, 2, 4]
    assert {row["loop_id"] for row in rows if row["event_type"].startswith("Loop")} == {"each/1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('  - {step: start, type: python, with: {x: "{{ nowhere }}"}, code: "def main(x): return x"}\n', "undefined"),
        ('  - {step: start, next: [{when: "{{ 1 / 0 }}", then: [{step: b}]}]}\n  - {step: b}\n', "division"),
        ("  - {step: start, type: http, endpoint: 'http://127.0.0.1:1/'}\n", "refused"),
    ],
    ids=["template", "routing", "tool"],
)
async def test_a_terminal_error_is_logged_and_ends_the_run(
    site: Site, log: asyncpg.Connection, text: str, message: str
) -> None:
    """Formal specification, 9 Error handling."""
    rows = await _rows(log, _run(site, V1 + text), "event_domain")
    assert [row for row in rows[:-1] if row["error"] and message in row["error"]["message"]]
    assert (rows[-1]["event_type"], rows[-1]["status"]) == ("PlaybookProcessed", "error")
