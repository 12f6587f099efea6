"""The examples of NoETL's design documents, as they print them: what runs, and its rows in the older vocabularies.

Cited are "Distributed Loop and Retry Architecture" (December 2025), "Failure Handling Architecture" and the
"Technical Whitepaper".
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
ENVELOPE = {
    "event_id",
    "event_type",
    "timestamp",
    "execution_id",
    "playbook_id",
    "workflow_run_id",
    "step_run_id",
    "tool_run_id",
    "loop_id",
    "iteration_id",
    "parent_event_id",
    "status",
    "duration_sec",
    "input",
    "output",
    "error",
    "metadata",
}
"""Technical Whitepaper, 9.1."""

CONTEXT = {"execution_id", "job_id", "catalog_id", "workload", "vars", "_step_results"}


class LoggedRun:
    """A run, and its rows in one of the vocabularies, in the order of their ids."""

    def __init__(self, report: Json, rows: list[Json]) -> None:
        self.status, self.result, self.failures = report["status"], report["result"], report["failures"]
        self.rows = rows

    def of(self, event: str) -> list[Json]:
        return [row for row in self.rows if row["event_type"] == event]

    def only(self, event: str) -> Json:
        [row] = self.of(event)
        return row


async def _run_and_log(
    site: Site, log: asyncpg.Connection, name: str, *settings: str, view: str = "event_legacy"
) -> LoggedRun:
    report = site.run(DESIGNS / f"{name}.yaml", *(part for setting in settings for part in ("--set", setting)))
    query = f"SELECT to_jsonb(e) FROM noetl.{view} e WHERE execution_id = $1 ORDER BY event_id, {{}}"
    order = "ordinal" if view == "event_domain" else "event_type"
    rows = await log.fetch(query.format(order), int(report["execution_id"]))
    return LoggedRun(report, [json.loads(row[0]) for row in rows])


# ---- Distributed Loop and Retry Architecture -------------------------------------------------------------------------


async def test_a_loop_logs_its_collection(site: Site, api: Api, log: asyncpg.Connection) -> None:
    """Loop Event Lifecycle; Loop With Retry (Nested)."""
    run_log = await _run_and_log(site, log, "fetch_all_endpoints", f"server_url={api.url}")
    assert run_log.status == "completed", run_log.failures
    assert [len(items) for items in run_log.result] == [35, 35]
    started = run_log.only("iterator_started")
    assert started["status"] == "RUNNING"
    for facts in (started["data"], started["context"]):
        assert (facts["iterator_name"], facts["total_count"], facts["collection_size"]) == ("endpoint", 2, 2)
        assert (facts["mode"], facts["collection"][1]["page_size"]) == ("sequential", 15)
    assert started["data"]["nested_task"] == {
        "name": "fetch_all_endpoints",
        "tool": "http",
        "retry": [
            {
                "when": "{{ response.paging.hasMore }}",
                "then": {
                    "max_attempts": 10,
                    "next_call": {"params": {"page": "{{ response.paging.page + 1 }}"}},
                    "collect": {"strategy": "append", "path": "data"},
                },
            }
        ],
    }
    assert [row["data"]["element"]["name"] for row in run_log.of("iteration_started")] == ["assessments", "users"]
    assert {row["parent_execution_id"] for row in run_log.of("iteration_started")} == {started["execution_id"]}
    for row in run_log.of("iteration_completed"):
        assert row["data"]["status"] == "success"
        assert row["meta"]["iterator"]["total_iterations"] == 2
        assert (row["meta"]["iterator"]["iterator_name"], row["meta"]["iterator"]["mode"]) == ("endpoint", "sequential")
    end = run_log.only("iterator_completed")["data"]
    assert (end["total_iterations"], end["successful"], end["failed"]) == (2, 2, 0)
    assert [len(items) for items in end["results"]] == [35, 35]
    pages = [row["data"]["attempt_number"] for row in run_log.of("action_completed") if row["node_type"] == "http"]
    assert pages == [1, 2, 3, 4, 1, 2, 3]


async def test_a_loop_with_failed_items_logs_all_results(site: Site, log: asyncpg.Connection) -> None:
    """Loop Event Lifecycle, step 4: 98 of 100; Event Metadata: total_iterations, completed_iterations, success_rate."""
    run_log = await _run_and_log(site, log, "some_items_fail")
    assert run_log.status == "failed"
    started = run_log.only("iterator_started")["data"]
    assert (started["mode"], started["concurrency"]) == ("async", 5)
    end = run_log.only("iterator_completed")
    assert end["data"]["results"] == [None if item in (30, 70) else item for item in range(100)]
    assert {name: end["data"][name] for name in ("total_iterations", "successful", "failed")} == {
        "total_iterations": 100,
        "successful": 98,
        "failed": 2,
    }
    assert (end["meta"]["completed_iterations"], end["meta"]["success_rate"]) == (98, 0.98)
    assert not run_log.of("iterator_failed")


async def test_a_loop_of_chunks_counts_items_and_chunks(site: Site, log: asyncpg.Connection) -> None:
    """Supported Processing Modes: chunked."""
    run_log = await _run_and_log(site, log, "chunks")
    assert run_log.result == [6, 4]
    started = run_log.only("iterator_started")["data"]
    assert (started["collection_size"], started["chunk_size"], started["chunks"]) == (4, 3, 2)


async def test_an_item_is_the_argument_of_main(site: Site, log: asyncpg.Connection) -> None:
    """Loop Without Retry."""
    assert (await _run_and_log(site, log, "process_items")).result == [2, 4, 6]


async def test_each_iteration_is_stored(
    site: Site, api: Api, log: asyncpg.Connection, playbooks: asyncpg.Connection
) -> None:
    """Loop Sink (Per-Iteration Save)."""
    run_log = await _run_and_log(site, log, "process_users", f"api_url={api.url}/api/v1")
    assert run_log.status == "completed", run_log.failures
    assert await playbooks.fetchval("SELECT count(*) FROM processed_users") == 3


async def test_a_failed_call_is_tried_again(site: Site, api: Api, log: asyncpg.Connection) -> None:
    """Retry Event Lifecycle, On Error Example."""
    run_log = await _run_and_log(site, log, "fetch_data", f"api_url={api.url}")
    assert run_log.status == "completed", run_log.failures
    first, second = run_log.of("action_started")
    failed, retry_event, done = (
        run_log.only("action_failed"),
        run_log.only("retry_scheduled"),
        run_log.only("action_completed"),
    )
    assert first["data"]["retry_config"] == [
        {
            "when": "{{ error is defined }}",
            "then": {"max_attempts": 3, "backoff": "exponential", "initial_delay": 0.1},
        }
    ]
    assert [row["data"]["attempt_number"] for row in (first, failed, retry_event, second, done)] == [1, 1, 2, 2, 2]
    assert {row["parent_event_id"] for row in (retry_event, second, done)} == {first["event_id"]}
    step = run_log.of("step_started")[0]
    assert first["parent_event_id"] == step["event_id"], "the parent is a row of this vocabulary"
    assert failed["meta"]["retry"] | {"scheduled_at": ""} == {
        "has_config": True,
        "attempt_number": 1,
        "max_attempts": 3,
        "retry_type": "on_error",
        "will_retry": True,
        "backoff_seconds": 0.1,
        "scheduled_at": "",
    }
    assert set(failed["meta"]["error"]) >= {"message", "has_stack_trace", "failed_at"}


async def test_pages_are_calls_of_one_sequence(
    site: Site, api: Api, log: asyncpg.Connection, playbooks: asyncpg.Connection
) -> None:
    """Retry Event Lifecycle, On Success Example; Retry Sink (Per-Attempt Save)."""
    run_log = await _run_and_log(site, log, "fetch_paginated_data", f"api_url={api.url}")
    assert run_log.status == "completed", run_log.failures
    pages = [row for row in run_log.of("action_completed") if row["node_type"] == "http"]
    assert [row["data"]["attempt_number"] for row in pages] == [1, 2, 3, 4]
    assert [row["data"]["result"]["paging"]["hasMore"] for row in pages] == [True, True, True, False]
    assert [row["parent_event_id"] for row in pages[1:]] == [row["event_id"] for row in pages[:-1]]
    assert pages[0]["data"]["retry_config"][0]["then"]["next_call"] == {
        "params": {"page": "{{ response.paging.page + 1 }}"}
    }
    assert [row["data"]["attempt_number"] for row in run_log.of("retry_scheduled")] == [2, 3, 4]
    assert {row["data"]["continuation"] for row in run_log.of("retry_scheduled")} == {"pagination"}
    sequence = run_log.only("retry_sequence_completed")
    assert sequence["data"]["total_attempts"] == 4
    assert [item["id"] for item in sequence["data"]["aggregated_result"]] == list(range(1, 36))
    assert sequence["parent_event_id"] == pages[-1]["event_id"]
    assert await playbooks.fetchval("SELECT count(*) FROM raw_data") == 4, "a row for each page"


async def test_the_limit_ends_a_sequence_and_is_logged(site: Site, api: Api, log: asyncpg.Connection) -> None:
    """Retry on Success, step 10: until the condition is false or max_attempts is reached."""
    run_log = await _run_and_log(site, log, "fetch_paginated_data", f"api_url={api.url}", "limit=2")
    assert (run_log.status, len(run_log.result)) == ("completed", 20)
    assert len(run_log.of("retry_scheduled")) == 1, "none for a page that is not called"
    assert run_log.only("retry_sequence_completed")["data"]["exhausted"] is True
    assert len(run_log.of("warning")) == 1


async def test_a_clause_is_shown_as_it_is_written(site: Site, api: Api, log: asyncpg.Connection) -> None:
    """Retry on Success: retry.on_success."""
    run_log = await _run_and_log(site, log, "fetch_pages_as_a_map", f"api_url={api.url}")
    assert len(run_log.result) == 35
    assert run_log.of("action_started")[0]["data"]["retry_config"] == {
        "on_success": {
            "while": "{{ response.paging.hasMore }}",
            "max_attempts": 10,
            "next_call": {"params": {"page": "{{ response.paging.page + 1 }}"}},
            "collect": "append",
            "merge_path": "data",
        }
    }


async def test_every_row_has_the_context(site: Site, log: asyncpg.Connection) -> None:
    """Context Sanitization: identifiers, workload, vars, and of the steps only whether they have data."""
    run_log = await _run_and_log(site, log, "context")
    for row in run_log.rows:
        assert row["context"].keys() >= CONTEXT, row["event_type"]
        assert row["context"]["workload"]["job"] == row["context"]["execution_id"], "rendered"
    last = run_log.rows[-1]["context"]
    assert last["vars"] == {"user_id": "12345"}
    assert last["_step_results"]["previous_step"] == {"has_data": True, "status": "success", "data_type": "dict"}
    assert last["_step_results"]["fails"] == {"has_data": False, "status": "failed"}


# ---- Failure Handling Architecture -----------------------------------------------------------------------------------


async def test_a_failure_leads_to_the_end_which_summarises_all_steps(site: Site, log: asyncpg.Connection) -> None:
    """Failure Path (Single Step); "end" Step Aggregation; Implicit "end" Step Injection."""
    run_log = await _run_and_log(site, log, "context")
    failed = run_log.only("step_failed")
    [end] = [row for row in run_log.of("step_started") if row["node_name"] == "end"]
    assert (end["meta"]["routed_to_end"], end["meta"]["original_failed_step"]) == (True, "fails")
    assert end["parent_event_id"] == failed["event_id"]
    [ended] = [row for row in run_log.of("step_completed") if row["node_name"] == "end"]
    assert ended["data"]["result"] == {
        "status": "aggregated",
        "results": {"previous_step": {"user_id": "12345"}},
        "failed_steps": ["fails"],
    }
    kinds = [row["event_type"] for row in run_log.rows]
    assert kinds[-2:] == ["workflow_failed", "playbook_failed"]
    for row in run_log.rows[-2:]:
        facts = ("evaluated_by_end_step", "total_steps", "failed_steps_count", "failed_steps")
        assert [row["meta"][name] for name in facts] == [True, 2, 1, ["fails"]]


# ---- Technical Whitepaper --------------------------------------------------------------------------------------------


async def test_the_minimal_playbook(site: Site, log: asyncpg.Connection, api: Api) -> None:
    """2.2 Minimal structure, and 3.2 Event types."""
    text = (DESIGNS / "minimal.yaml").read_text().replace("http://127.0.0.1:5555", api.url)
    report = site.run(site.write(text, "minimal.yaml"))
    assert report["status"] == "completed", report["failures"]
    query = "SELECT event_type FROM noetl.event_domain WHERE execution_id = $1 ORDER BY event_id, ordinal"
    run_log = [row[0] for row in await log.fetch(query, int(report["execution_id"]))]
    assert run_log[:4] == ["PlaybookExecutionRequested", "PlaybookRequestEvaluated", "WorkflowStarted", "StepStarted"]
    assert run_log[-2:] == ["WorkflowFinished", "PlaybookProcessed"]
    assert run_log.count("ToolFinished") == 1


async def test_a_loop_over_steps(site: Site, log: asyncpg.Connection) -> None:
    """4.2 Step parameters, 6.2 Loop boundary and 6.3 Loop events."""
    run_log = await _run_and_log(site, log, "city_loop", view="event_domain")
    assert run_log.status == "completed", run_log.failures
    assert [(row["city"], row["alert"]) for row in run_log.result] == [("Paris", False), ("Oslo", True)]
    started, finish_event = run_log.only("LoopStarted"), run_log.only("LoopFinished")
    assert started["loop_id"] == finish_event["loop_id"] == "city_loop/1"
    items = run_log.of("LoopIterationStarted")
    assert [row["metadata"]["iterator_value"] for row in items] == ["Paris", "Oslo"]
    assert len({row["iteration_id"] for row in items}) == 2
    rows = {row["event_id"] for row in run_log.rows}
    assert {row["parent_event_id"] for row in run_log.rows[1:]} <= rows, "each parent is a row of this vocabulary"


@pytest.mark.parametrize(("error", "calls"), [("503", 3), ("404", 1)])
async def test_all_predicates_of_a_retry_must_hold(
    site: Site, api: Api, log: asyncpg.Connection, error: str, calls: int
) -> None:
    """7.1 Retry clause, 7.2 Retry events and 7.3: an attempt has its rendered inputs and correlation ids."""
    run_log = await _run_and_log(
        site, log, "retry_clause", f"api_url={api.url}", f'error="{error}"', view="event_domain"
    )
    assert run_log.status == "failed"
    tools = run_log.of("ToolStarted")
    assert [row["attempt"] for row in tools] == list(range(1, calls + 1))
    assert len({row["tool_run_id"] for row in tools}) == 1
    assert {row["step_run_id"] for row in tools} == {"start#1"}
    assert tools[0]["input"]["config"]["params"]["error_type"] == error
    assert len(run_log.of("RetryStarted")) == len(run_log.of("RetryProcessed")) == calls - 1
    assert len({row["retry_id"] for row in run_log.of("RetryStarted")}) == min(1, calls - 1)
    for row in run_log.rows:
        assert row.keys() >= ENVELOPE
        assert row["timestamp"].endswith("+00:00")
        assert row["workflow_run_id"] == str(row["execution_id"])
        assert (row["path"], row["version"]) == ("designs/retry_clause", 1)
    assert all(row["duration_sec"] is not None for row in run_log.of("ToolFinished"))


async def test_a_sink_logs_its_rows(site: Site, log: asyncpg.Connection, playbooks: asyncpg.Connection) -> None:
    """8.2 Sink placement and 8.3 Sink events."""
    run_log = await _run_and_log(site, log, "sink", view="event_domain")
    assert run_log.status == "completed", run_log.failures
    [(step, payload)] = await playbooks.fetch("SELECT step, payload->>'x' FROM event_sink")
    assert (step, payload) == ("work", "1")
    sink_event = run_log.only("SinkProcessed")
    assert (sink_event["status"], sink_event["output"]) == ("success", {"row_count": 1, "table": "event_sink"})
    tools = {row["step_run_id"]: row["event_id"] for row in run_log.of("ToolStarted")}
    assert sink_event["parent_event_id"] == tools["work#1"]


@pytest.mark.parametrize(("n", "sink_event"), [(7, [7]), (3, [])])
async def test_the_sink_of_a_rule_stores_on_its_branch_alone(
    site: Site, log: asyncpg.Connection, playbooks: asyncpg.Connection, n: int, sink_event: list[int]
) -> None:
    """8.2 Sink placement: at case level."""
    run_log = await _run_and_log(site, log, "case_sink", f"n={n}", view="event_domain")
    assert run_log.status == "completed", run_log.failures
    assert [row[0] for row in await playbooks.fetch("SELECT n FROM large_ones")] == sink_event
    assert [row["output"]["row_count"] for row in run_log.of("SinkProcessed")] == [1 for _ in sink_event]


async def test_a_short_step_does_not_wait_for_a_long_loop_beside_it(
    site: Site, api: Api, log: asyncpg.Connection
) -> None:
    """Benefits of Distributed Architecture, 8: fairness."""
    run_log = await _run_and_log(site, log, "beside_a_loop", f"api_url={api.url}")
    assert run_log.status == "completed", run_log.failures
    kinds = [(row["event_type"], row["node_name"]) for row in run_log.rows]
    assert kinds.index(("step_completed", "short")) < kinds.index(("iterator_completed", "long"))
