"""How often calls take effect and rows are stored, as the compiler reports it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl_activities.outcome_ledger import LedgerTool, stores_outcomes
from noetl_activities.sinks import KINDS as SINKS_WITH_LEDGER
from noetl_activities.tool import load_tools
from noetl_compiler import compile_or_raise, preview
from noetl_compiler.graph import Graph
from noetl_compiler.guarantees import call_guarantee, guarantees_json, rows_guarantee
from noetl_compiler.language.tools import IN_WORKFLOW, KINDS, WAIT_KINDS
from noetl_compiler.sql_effects import sql_effect, statements

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: guarantee_table}\nworkflow:\n"
RETRY = "policy: {rules: [{when: \"{{ output.status == 'error' }}\", then: {do: retry}}]}"
RETRY_OK = "policy: {rules: [{when: \"{{ output.status == 'ok' }}\", then: {do: retry}}]}"
ROWS = "sink: {kind: postgres, auth: pg, table: t}"

AFTER_ANSWER = "at least once: repeated when a worker is lost after the server has answered"
NOT_AFTER_A_LOSS = "its policy retries errors, and a call may fail after it has taken effect"
POST = "kind: http, url: 'http://x', method: POST"
FROM = "kind: transfer, source: {type: http, url: u}"
COMMITTED_TOGETHER = "exactly once: the rows and the outcome of the call are committed together"
STARTED_AGAIN = "started again after a reset of its caller, as the same execution, whose calls keep their guarantees"
CODE = "kind: python, code: 'result = 1'"


def graph_of(tool: str) -> Graph:
    return compile_or_raise(f"{HEAD}- step: start\n  tool: {{{tool}}}\n")


def guarantee_of(tool: str) -> str:
    [task] = graph_of(tool).steps["start"].tasks
    return str(call_guarantee(task))


def sql(kind: str, text: str, more: str = "") -> str:
    return guarantee_of(f"kind: {kind}, auth: pg, query: {json.dumps(text)}{more}")


@pytest.mark.parametrize(
    ("tool", "guarantee"),
    [
        (POST, AFTER_ANSWER),
        (
            f"{POST}, spec: {{{RETRY_OK}}}",
            AFTER_ANSWER,
        ),
        (
            f"{POST}, spec: {{{RETRY}}}",
            f"{AFTER_ANSWER}, or by its policy after an error",
        ),
        (f"{POST}, {ROWS}", "at least once: repeated when a worker is lost before the outcome is stored with its rows"),
        (
            f"{POST}, spec: {{idempotency_key: X-Key, {RETRY}}}",
            "exactly once: if the server honours X-Key, which is the same in all attempts of the call",
        ),
        (
            f"{POST}, spec: {{idempotent: false}}",
            "at most once: not repeated when a worker is lost: it fails with kind unknown_outcome",
        ),
        (
            f"{POST}, spec: {{idempotent: false, {RETRY}}}",
            f"at least once: {NOT_AFTER_A_LOSS}",
        ),
        (
            "kind: http, url: 'http://x'",
            "at least once: a GET changes nothing on the server, so repeating it does no harm",
        ),
        ("kind: http, url: 'http://x', method: put", "at least once: repeating a PUT has no further effect"),
        (
            "kind: http, url: 'http://x', method: '{{ workload.method }}'",
            AFTER_ANSWER,
        ),
        (CODE, "at least once: repeated when a worker is lost before it has reported"),
        (f"{CODE}, {ROWS}", "at least once: repeated when a worker is lost before the outcome is stored with its rows"),
        (
            f"{CODE}, spec: {{idempotent: false}}",
            "at most once: not repeated when a worker is lost: it fails with kind unknown_outcome",
        ),
        ("kind: noop", "None"),
        ("kind: shell, cmds: [ls]", "at least once: repeated when a worker is lost before it has reported"),
        ("kind: nats, operation: kv_keys", "at least once: repeated when a worker is lost before it has reported"),
        (
            f"{FROM}, target: {{type: postgres, table: t}}",
            f"{COMMITTED_TOGETHER}; at least once for a role that may not use the ledger",
        ),
        (f"{FROM}, target: {{type: duckdb, table: t}}", COMMITTED_TOGETHER),
        (
            f"{FROM}, target: {{type: http, url: u}}",
            "at least once: a batch is sent again when its worker is lost, with the same Idempotency-Key",
        ),
        (
            f"{FROM}, target: {{type: http, url: u}}, spec: {{idempotent: false}}",
            "at most once: not repeated when a worker is lost: it fails with kind unknown_outcome",
        ),
        ("kind: rhai, code: x", "None"),
        ("kind: playbook, path: p", f"at least once: {STARTED_AGAIN}"),
        (
            f"kind: playbook, path: p, spec: {{{RETRY}}}",
            f"at least once: {STARTED_AGAIN}; its policy starts another after an error",
        ),
        (
            "kind: playbook, path: p, wait: false",
            "exactly once: one run is started, whose calls have their own guarantees",
        ),
        (
            "kind: playbook, path: p, spec: {idempotent: false}",
            "at most once: not started again after a reset of its caller: it fails with kind unknown_outcome",
        ),
    ],
)
def test_guarantees_of_a_call(tool: str, guarantee: str) -> None:
    assert guarantee_of(tool) == guarantee


LEDGER = "if it writes, its transaction stores the outcome in the ledger"


def test_sql_in_a_transaction() -> None:
    no_role = "; at least once for a role that may not use the ledger"
    assert sql("postgres", "insert into t values (1); select 1") == f"exactly once: {LEDGER}{no_role}"
    assert sql("duckdb", "create table t as select 1") == f"exactly once: {LEDGER}"
    assert sql("duckdb", "select 1; from t") == "at least once: it only reads, so repeating it does no harm"
    assert sql("postgres", "insert into t values (1)", ", spec: {idempotent: false}") == (
        "at most once: not repeated when a worker is lost: it fails with kind unknown_outcome, "
        "unless the ledger has its outcome"
    )


@pytest.mark.parametrize(
    ("kind", "text", "statement"),
    [
        ("postgres", "select 1; -- then;\nvacuum t", "VACUUM"),
        ("postgres", "create unique index concurrently i on t (n)", "CREATE UNIQUE INDEX CONCURRENTLY"),
        ("postgres", "reindex (verbose) database d", "REINDEX DATABASE"),
        ("postgres", "begin; insert into t values (1); commit", "BEGIN"),
        ("duckdb", "/* here */ attach 'x.db'", "ATTACH"),
        ("duckdb", "copy (select 1) to 'x.csv'", "COPY TO"),
    ],
)
def test_sql_outside_of_its_transaction(kind: str, text: str, statement: str) -> None:
    guarantee = sql(kind, text)
    assert guarantee == f"at least once: {statement} is not rolled back with a transaction, so it may run twice"
    assert sql(kind, text, ", spec: {idempotent: false}").startswith("at most once: not repeated when a worker is lost")


@pytest.mark.parametrize(
    "text",
    ["{{ workload.sql }}", "insert into t values (1); {{ workload.sql }}", "call p()", "do $$ begin commit; end $$"],
)
def test_sql_that_is_known_only_when_it_runs(text: str) -> None:
    unknown = "at least once: whether its SQL stays in one transaction is known only at run time"
    assert sql("postgres", text) == unknown


def test_encoded_sql_is_known_only_when_it_runs() -> None:
    assert guarantee_of("kind: postgres, auth: pg, command_b64: c2VsZWN0IDE=").startswith(
        "at least once: whether its SQL"
    )


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a; b;", ["a", "b"]),
        ("a 'x;y' \"p;q\" {{ 'r;s' }} $t$ u;v $t$; b", ["a 'x;y' \"p;q\" {{ 'r;s' }} $t$ u;v $t$", "b"]),
        ("-- a;\n/* b; */ {# c; #} {% if d %} e {% endif %}", ["e"]),
        ("a 'never closed; b", ["a 'never closed; b"]),
        ("", []),
    ],
)
def test_statements_are_split(text: str, parts: list[str]) -> None:
    assert statements(text) == parts


def test_a_block_without_an_end_of_its_transaction_stays_in_it() -> None:
    assert sql_effect("postgres", ["do $$ begin perform 1; end $$"]).kind == "commits"
    assert sql_effect("postgres", ["savepoint a; rollback to a"]).kind == "commits"


TOGETHER = "the rows of each outcome and their key are committed together"
EMPTIED = "the table is emptied once per run of the step"
NO_ROLE = "at least once for a role that may not use the ledger"
CALL_REPEATED = "at least once: called again when its call is repeated"


@pytest.mark.parametrize(
    ("sink", "guarantee"),
    [
        ("kind: postgres, auth: pg, table: t", f"exactly once: {TOGETHER}; {NO_ROLE}"),
        (
            "kind: postgres, auth: pg, table: t, mode: replace",
            f"exactly once: {EMPTIED}, and {TOGETHER}; a role that may not use the ledger empties it at every call",
        ),
        ("kind: postgres, auth: pg, statement: 'insert into t values (1)'", f"exactly once: {TOGETHER}; {NO_ROLE}"),
        ("kind: duckdb, table: t", f"exactly once: {TOGETHER}"),
        (
            "kind: duckdb, table: t, mode: replace",
            f"exactly once: the table is emptied once per run of the step, and {TOGETHER}",
        ),
        ("kind: http, url: 'http://x'", f"{CALL_REPEATED}, with the same Idempotency-Key"),
        ("kind: python, code: 'result = 1'", f"{CALL_REPEATED}, with the same idempotency_key"),
        ("kind: gcs, url: 'gs://x'", "None"),
    ],
)
def test_guarantees_of_stored_rows(sink: str, guarantee: str) -> None:
    [task] = graph_of(f"{CODE}, sink: {{{sink}}}").steps["start"].tasks
    assert str(rows_guarantee(task.sinks[0])) == guarantee


def test_the_tables_agree_with_the_tools() -> None:
    tools = load_tools()
    effects = {kind: tool.effect for kind, tool in KINDS.items() if tool.effect}
    assert set(effects) == set(tools) | IN_WORKFLOW
    keeping = of(effects, "transaction") | of(effects, "rows")
    assert {kind for kind, tool in tools.items() if isinstance(tool, LedgerTool)} == keeping
    assert {kind for kind, tool in tools.items() if stores_outcomes(tool)} == keeping
    assert {kind for kind, tool in tools.items() if not tool.spec.effects} == of(effects, "none") - WAIT_KINDS
    assert set(SINKS_WITH_LEDGER) == of(effects, "transaction")


def of(effects: dict[str, Any], effect: str) -> set[str]:
    return {kind for kind, kind_effect in effects.items() if kind_effect == effect}


# ---- where guarantees are shown -------------------------------------------------------------------------------------


def test_the_tree_has_the_word_at_the_call_and_each_reason_once() -> None:
    text = preview.tree(
        compile_or_raise(f"{HEAD}- step: start\n  tool: [a: {{{CODE}}}, b: {{{CODE}, {ROWS}}}, c: {{{CODE}}}]")
    )
    assert text.count("[python, at least once]") == 3
    assert "insert into postgres table t, after every call, rows exactly once" in text
    assert text.count("repeated when a worker is lost before it has reported\n│  └─ start.a, start.c") == 1
    assert f"exactly once: {TOGETHER}; {NO_ROLE}\n   └─ rows of start.b" in text


def test_an_explanation_has_word_and_reason() -> None:
    text = preview.explain(graph_of(f"{POST}, {ROWS}, spec: {{idempotency_key: X-Key}}"), "start")
    assert "exactly once: if the server honours X-Key, which is the same in all attempts of the call" in text
    assert "sends its idempotency key in the header X-Key, the same for every attempt" in text
    assert f"rows exactly once: {TOGETHER}; {NO_ROLE}" in text


def test_a_playbook_that_changes_nothing_has_no_guarantees_to_show() -> None:
    graph = graph_of("kind: noop")
    assert "delivery guarantees" not in preview.tree(graph)
    assert preview.guarantees(graph) == "no call has an effect"


def test_guarantees_are_printed_as_json() -> None:
    guarantees = json.loads(guarantees_json(graph_of(f"{CODE}, {ROWS}")))
    why = "repeated when a worker is lost before the outcome is stored with its rows"
    rows = {"kind": "postgres", "table": "t", "line": 6, "guarantee": "exactly once", "why": f"{TOGETHER}; {NO_ROLE}"}
    assert guarantees == [
        {
            "step": "start",
            "task": "start_task",
            "kind": "python",
            "line": 6,
            "guarantee": "at least once",
            "why": why,
            "rows": [rows],
        }
    ]
