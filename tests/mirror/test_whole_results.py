"""The rows of steps, iterations and loops have results whole up to 10 KB, and larger ones as a reference (rule 37)."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import asyncpg
import pytest

from noetl_activities.tool import Request, ToolContext
from noetl_temporal.inspection.history_events import events_in_history
from noetl_temporal.mirror.rebuild import rebuild
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.stack.addresses import Addresses
from tests.mirror.conftest import Log
from tests.shell.conftest import Shell

SMALL, MEDIUM, LARGE, STORED_SIZE = 500, 5_000, 50_000, 100_000

WORKFLOW = f"""
  - step: small
    tool: {{kind: noop, input: {{n: {SMALL}}}}}
    next: {{arcs: [{{step: medium}}]}}
  - step: medium
    tool: {{kind: noop, input: {{n: {MEDIUM}}}}}
    next: {{arcs: [{{step: large}}]}}
  - step: large
    tool: {{kind: noop, input: {{n: {LARGE}}}}}
    next: {{arcs: [{{step: stored}}]}}
  - step: stored
    tool: {{kind: noop, input: {{n: {STORED_SIZE}}}}}
    next: {{arcs: [{{step: each}}]}}
  - step: each
    loop: {{in: [{SMALL}, {MEDIUM}, {LARGE}], iterator: item, spec: {{FRAME}}}}
    tool: {{kind: noop, input: {{n: "{{{{ item }}}}"}}}}
    next: {{arcs: [{{step: few}}]}}
  - step: few
    loop: {{in: [{SMALL}, {MEDIUM}], iterator: item}}
    tool: {{kind: noop, input: {{n: "{{{{ item }}}}"}}}}
    next: {{arcs: [{{step: computed}}]}}
  - step: computed
    tool:
      kind: noop
      input: {{n: {SMALL}}}
      spec:
        policy:
          rules:
            - when: "{{{{ outcome.status == 'ok' }}}}"
              then: {{do: continue, result: "{{{{ 'y' * {MEDIUM} }}}}"}}
            - else: {{then: {{do: fail}}}}
    next: {{arcs: [{{step: pages}}]}}
  - step: pages
    tool:
      kind: noop
      input: {{pages: [{MEDIUM}, {LARGE}]}}
      spec:
        policy:
          rules:
            - when: "{{{{ response.page < 2 }}}}"
              then: {{do: again, attempts: 5, collect: {{strategy: collect, path: page}}}}
            - else: {{then: {{do: continue}}}}
"""


def _answers() -> Callable[[Request, ToolContext], Any]:
    """A tool that returns text of n characters, or page after page."""
    pages = count(1)

    def answer(request: Request, _context: ToolContext) -> Any:
        if "pages" not in request.input:
            return "x" * request.input["n"]
        page = next(pages)
        return {"text": "x" * request.input["pages"][page - 1], "page": page}

    return answer


ALONE = f"""
  - step: text
    tool: {{kind: noop, input: {{n: {SMALL}}}}}
    next: {{arcs: [{{step: short}}]}}
  - step: short
    tool: {{kind: noop, input: {{n: 3}}}}
    next: {{arcs: [{{step: mapping}}]}}
  - step: mapping
    tool: {{kind: noop, input: {{pages: [{SMALL}]}}}}
"""


@pytest.fixture(autouse=True)
def _store_payloads(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_POSTGRES", servers.postgres)


def _of(rows: list[dict[str, Any]], type_: str, node: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["event_type"] == type_ and row["node_name"] == node]


@pytest.mark.parametrize("frame", ["", "frame: {}"])
async def test_rows_have_results_whole_up_to_10_kb(servers: Addresses, dsn: str, log: Log, frame: str) -> None:
    shell = Shell(servers.temporal)
    async with shell.client(_answers()) as client:
        run = await shell.submit(client, WORKFLOW.replace("FRAME", frame))
        await run.result()
        await follow_execution(client.temporal, dsn, run.workflow.id)
        in_history = [event async for event in events_in_history(client.temporal, run.workflow_id)]
    stored_rows = await log.everything()
    rows = [{**row, **{name: json.loads(row[name] or "null") for name in ("result", "meta")}} for row in stored_rows]
    by_id = {str(row["event_id"]): row for row in rows}

    def shows(row: dict[str, Any], value: Any) -> None:
        """Whole, or as a reference to a row of an attempt that names the event of history."""
        if len(str(value)) < 10_000:
            assert row["result"]["context"] == {"value": value}, row
            return
        reference = row["result"]["reference"]
        assert "context" not in row["result"]
        assert (reference["type"], reference["size"]) == ("history", len(value) + 2)
        assert reference["preview"] == '"' + value[: len(reference["preview"]) - 1]
        assert by_id[reference["event_id"]]["event_type"] == "task.attempt.done"

    for name, size in (("small", SMALL), ("medium", MEDIUM), ("large", LARGE)):
        [done] = _of(rows, "step.done", name)
        shows(done, "x" * size)
        for row in rows:
            if row["event_type"] in ("task.done", "task.attempt.done") and row["meta"]["step"] == name:
                shows(row, "x" * size)
    [done] = _of(rows, "step.done", "stored")
    results = done["result"]["reference"]
    assert (results["type"], results["size"], results["preview"]) == ("payload", STORED_SIZE + 2, '"' + "x" * 499)
    async with asyncpg.create_pool(servers.postgres, min_size=1, max_size=1) as pool:
        assert await pool.fetchval("SELECT count(*) FROM noetl.payload WHERE key = $1", results["key"]) == 1
    iterations = {row["meta"]["iteration"]: row for row in _of(rows, "loop.iteration.done", "each")}
    for index, size in enumerate((SMALL, MEDIUM, LARGE)):
        shows(iterations[index], "x" * size)
    for kind in ("loop.done", "step.done"):
        [few] = _of(rows, kind, "few")
        assert few["result"]["context"]["results"] == ["x" * SMALL, "x" * MEDIUM]
        [each] = _of(rows, kind, "each")
        assert each["result"]["reference"]["type"] == "rows"
        assert each["result"]["reference"]["preview"].startswith('{"results":["xxx')
    [computed_row] = _of(rows, "step.done", "computed")
    shows(computed_row, "y" * MEDIUM)
    pages = [row for row in rows if row["event_type"] == "task.done" and row["meta"]["step"] == "pages"]
    assert pages[0]["result"]["context"] == {"text": "x" * MEDIUM, "page": 1}
    assert pages[1]["result"]["context"] == {"value": [1, 2]}
    large = [row for row in rows if row["event_type"] == "task.attempt.done" and row["meta"].get("page") == 2]
    assert large[0]["result"]["reference"]["size"] > LARGE
    legacy = {row["event_id"]: row["data"] for row in await log.rows(run.execution_id, "event_legacy")}
    for index, size in enumerate((SMALL, MEDIUM)):
        assert legacy[iterations[index]["event_id"]]["result"] == {"value": "x" * size}
    assert legacy[iterations[2]["event_id"]]["result"] == {"reference": iterations[2]["result"]["reference"]}
    assert not [row for row in rows if "_truncated" in str(row["result"]) and row["node_name"] != "end"]
    await rebuild(dsn, client.temporal.data_converter)
    assert await log.everything() == stored_rows
    shown = {event.event_id: event.result for event in in_history}
    assert {id_: result for id_, result in shown.items() if result} == {
        row["event_id"]: row["result"] for row in rows if row["result"] and row["event_id"] in shown
    }


async def test_an_end_that_was_added_has_the_results_of_all_steps(servers: Addresses, dsn: str, log: Log) -> None:
    shell = Shell(servers.temporal)
    async with shell.client(_answers()) as client:
        run = await shell.submit(client, ALONE)
        await run.result()
        await follow_execution(client.temporal, dsn, run.workflow_id)
        in_history = [event async for event in events_in_history(client.temporal, run.workflow_id)]
    stored_rows = await log.everything()
    results = {"text": "x" * SMALL, "short": "xxx", "mapping": {"text": "x" * SMALL, "page": 1}}
    [row] = [row for row in stored_rows if row["event_type"] == "step.done" and row["node_name"] == "end"]
    [event] = [event for event in in_history if event.event_type == "step.done" and event.node_name == "end"]
    for result in (json.loads(row["result"]), event.result):
        assert result is not None
        assert set(result) == {"status", "context"}
        assert result["context"]["results"] == results
    for type_ in ("workflow.finished", "playbook.completed"):
        [row] = [row for row in stored_rows if row["event_type"] == type_]
        assert json.loads(row["result"])["context"] == results["mapping"]
    await rebuild(dsn, client.temporal.data_converter)
    assert await log.everything() == stored_rows
