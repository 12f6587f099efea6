"""Every example of the reference compiles, runs, and has the result that its page shows."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest
import yaml

from noetl_activities.credentials import CredentialSource
from noetl_activities.installed_tools import installed_tools
from noetl_activities.network import guarded_client
from noetl_activities.tool import load_tools
from noetl_activities.variables import HOME_VARIABLE
from noetl_compiler import compile_text
from noetl_compiler.diagnostics import Diagnostic
from noetl_compiler.graph import Graph
from noetl_compiler.guarantees import call_guarantee, steps_with_tasks, task_name
from noetl_compiler.phases import compile_parsed, parse_playbook
from noetl_compiler.pinning import pin_graphs
from noetl_compiler.scripts import with_scripts
from noetl_compiler.source import SourceFile
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.playbook_tests.differences import is_match
from noetl_temporal.playbook_tests.host import TrialRun
from noetl_temporal.playbook_tests.suites import load
from noetl_temporal.playbook_tests.trial import run_test
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.submission.unsupported import check_calls
from tests.nats_server import LOGIN, bucket
from tests.object_store import KEYS

from .reference_api import transport
from .reference_blocks import NOTES, PAGES, RAN, Block, blocks, scripts
from .reference_host import Received, run_playbook

ALL = [block for page in PAGES for block in blocks(page)]
PLAYBOOKS = [block for block in ALL if not block.why_not and not block.tested]
SUITES = [block for block in ALL if block.tested]
SCRIPTS = {url: code for page in PAGES for url, code in scripts(page)}
TOOLS = load_tools()
EXECUTION_IDS = itertools.count(1_000)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_block_is_skipped(page: Path) -> None:
    marks = re.findall(r"(?i)^\s*[`~]{3,} *ya?ml", page.read_text("utf-8"), re.MULTILINE)
    assert len(marks) == len(list(blocks(page)))


@pytest.mark.parametrize("block", PLAYBOOKS, ids=lambda block: block.name)
def test_every_example_shows_its_outcome(block: Block) -> None:
    """Otherwise it would not be run."""
    assert block.text.startswith("apiVersion:"), "is it a playbook? if not, say so: <!-- not a playbook: why -->"
    assert block.notes.keys() <= NOTES.keys(), "unknown notes"
    has_errors = any("error" in str(text).split(":")[0] for text in _as_list(block.notes.get("findings")))
    assert has_errors or block.notes.keys() & RAN


@pytest.mark.parametrize("block", PLAYBOOKS, ids=lambda block: block.name)
def test_an_example_compiles_with_the_findings_that_its_page_names(block: Block) -> None:
    diagnostics = [_line(diagnostic) for diagnostic in compile_text(block.text).diagnostics]
    assert is_match(_as_list(block.notes.get("findings")), diagnostics), diagnostics


def _line(diagnostic: Diagnostic) -> str:
    return f"{diagnostic.severity.value}[{diagnostic.code.value}]: {diagnostic.message}"


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else cast("list[Any]", value) if isinstance(value, list) else [value]


RUNS = [block for block in PLAYBOOKS if "result" in block.notes or "status" in block.notes]
REFUSED_BLOCKS = [block for block in PLAYBOOKS if "refused" in block.notes]


@pytest.mark.parametrize("block", REFUSED_BLOCKS, ids=lambda block: block.name)
def test_unsupported_examples_are_refused(block: Block) -> None:
    calls = pin_graphs((graph.source.path, graph) for graph in _beside(block))
    refusals = [line.partition("error: ")[2] for line in check_calls(_graph(block), calls, TOOLS)[1]]
    assert is_match(_as_list(block.notes["refused"]), refusals), refusals


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network is the example's API and loopback, and files of DuckDB lie in a folder of the test."""
    network = transport()

    def guarded_transport(*_guards: object, verify: bool) -> httpx.AsyncBaseTransport:
        del verify
        return network

    monkeypatch.setattr(guarded_client, "GuardedTransport", guarded_transport)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path_factory.mktemp("home")))


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("block", RUNS, ids=lambda block: block.name)
async def test_an_example_has_the_result_that_its_page_shows(block: Block, request: pytest.FixtureRequest) -> None:
    graph, notes = _graph(block), block.notes
    called_graphs = {graph.source.path: graph for graph in _beside(block)}
    assert check_calls(graph, pin_graphs(called_graphs.items()), TOOLS)[1] == []
    dsn = await _new_database(request.getfixturevalue("servers")) if "postgres" in block.text else ""
    nats = request.getfixturevalue("nats_address") if "kind: nats" in block.text else ""
    store = request.getfixturevalue("object_store").url if "kind: artifact" in block.text else ""
    source = CredentialSource(environment=_credentials(dsn, nats, store))
    answers = Received(notes.get("signals") or {}, notes.get("decisions") or {})
    async with bucket(nats, "sessions") if nats else nullcontext():
        run = await run_playbook(
            graph, TOOLS, source, next(EXECUTION_IDS), notes.get("payload") or {}, called_graphs, answers
        )
    cause = run.finish.failures.cause
    observed: dict[str, Any] = {
        "status": run.finish.status,
        "result": run.finish.result,
        "failure": f"{cause.kind}: {cause.message}" if cause else None,
        "calls": [call.call.task for call in run.calls],
        "attempts": _note_values(notes, "attempts", _attempts(run)),
        "delays": run.delays,
        "outcomes": _note_values(notes, "outcomes", _outcomes(run)),
        "rows": {table: await _rows(dsn, table) for table in _names(notes, "rows")},
        "guarantees": _note_values(notes, "guarantees", _guarantees(graph)),
    }
    expected = {"status": "completed", **{name: notes[name] for name in notes.keys() & observed.keys()}}
    wrong = {name: observed[name] for name in expected if not is_match(expected[name], observed[name])}
    assert not wrong, yaml.safe_dump(json.loads(json.dumps(wrong, default=str)), sort_keys=False)


@pytest.mark.parametrize("block", SUITES, ids=lambda block: block.name)
def test_tests_pass_as_their_page_says(block: Block, tmp_path: Path) -> None:
    (tmp_path / "example.yaml").write_text(block.tested)
    (tmp_path / "example.test.yaml").write_text(block.text)
    suite = load(tmp_path / "example.test.yaml", installed_tools())
    assert suite.graph is not None, (suite.invalid_files, suite.unsupported)
    verdicts = [run_test(test, suite.graph, installed_tools()) for test in suite.suite.tests]
    problems = [problem.message for verdict in verdicts for problem in verdict.problems]
    observed = {"passed": sum(verdict.passed for verdict in verdicts), "problems": problems}
    assert is_match({"problems": [], **block.notes}, observed), observed


def _note_values(notes: Mapping[str, Any], note: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values.get(name) for name in _names(notes, note)}


def _names(notes: Mapping[str, Any], note: str) -> list[str]:
    return list(notes.get(note) or {})


def _attempts(run: TrialRun) -> Counter[str]:
    counter: Counter[str] = Counter()
    for call in run.calls:
        counter[call.call.task] += call.attempts
    return counter


def _outcomes(run: TrialRun) -> dict[str, PlainOutcome]:
    """The last of each task."""
    return {call.call.task: call.report.outcome for call in run.calls if call.report is not None}


def _guarantees(graph: Graph) -> dict[str, str]:
    return {task_name(step, task): str(call_guarantee(task)) for step, task in steps_with_tasks(graph)}


def _graph(block: Block) -> Graph:
    """With the scripts that pages show fetched."""
    playbook = parse_playbook(SourceFile("<text>", block.text))
    graph = compile_parsed(with_scripts(playbook, {}, fetch=lambda download: SCRIPTS[download.url])).graph
    assert graph is not None
    return graph


def _beside(block: Block) -> list[Graph]:
    """The playbooks of the same page that have a path."""
    playbooks = (
        compile_text(playbook.text).graph
        for playbook in PLAYBOOKS
        if playbook.page == block.page and "\nmetadata:" in playbook.text
    )
    return [graph for graph in playbooks if graph is not None and graph.source.path]


def _credentials(dsn: str, nats: str, store: str) -> dict[str, str]:
    """Those that the examples name."""
    credentials: dict[str, dict[str, str]] = {"api": {"type": "bearer", "token": "s3cret-token"}}
    credentials["billing"] = {"type": "secret", "token": "s3cret-token", "client_secret": "cl1ent-secret"}
    credentials["billing_token"] = {"type": "secret", "value": "s3cret-token"}
    if dsn:
        credentials["warehouse"] = {"type": "postgres", "dsn": dsn}
    if nats:
        credentials["cache"] = {"type": "nats", "nats_url": nats, **LOGIN}
    if store:
        credentials["backup"] = {"type": "s3", "endpoint": store, **KEYS}
    return {f"NOETL_CREDENTIAL_{name.upper()}": json.dumps(fields) for name, fields in credentials.items()}


async def _new_database(servers: Addresses) -> str:
    name = f"reference_{next(EXECUTION_IDS)}"
    connection = await asyncpg.connect(servers.postgres)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    return _at_database(servers.postgres, name)


def _at_database(dsn: str, name: str) -> str:
    return urlsplit(dsn)._replace(path=f"/{name}").geturl()


async def _rows(dsn: str, table: str) -> list[dict[str, Any]]:
    connection = await asyncpg.connect(dsn)
    try:
        return [dict(row) for row in await connection.fetch(f"SELECT * FROM {table} ORDER BY 1")]
    finally:
        await connection.close()


# ---- the test of the test --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "real", "expected"),
    [
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1, "...": "..."}, {"a": 1, "b": 2}, True),
        ([1, "..."], [1, 2, 3], True),
        ([1, 2], [1, 2, 3], False),
        ("a ... c", "a b c", True),
        ("...", None, True),
        (True, 1, False),
    ],
)
def test_three_dots_match_any_rest(pattern: Any, real: Any, expected: bool) -> None:
    assert is_match(pattern, real) is expected


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "page.md"


def test_a_block_has_its_place_its_notes_and_the_head_that_was_left_out(page: Path) -> None:
    page.write_text("# Page\n\n```yaml\nworkflow: []\n# result: {a: 1}\n# calls: [b]\n```\n")
    [block] = blocks(page)
    assert (block.name, block.notes) == ("page.md:4", {"result": {"a": 1}, "calls": ["b"]})
    assert block.text.startswith("apiVersion: noetl.io/v2\n")


def test_a_block_that_is_not_a_playbook_has_a_reason(page: Path) -> None:
    page.write_text("<!-- not a playbook: credentials -->\n\n```yaml\na: 1\n```\n\n```yaml\na: 1\n```\n")
    assert [block.why_not for block in blocks(page)] == ["credentials", ""]
