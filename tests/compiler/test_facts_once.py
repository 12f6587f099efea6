"""Facts of the language are declared in ``noetl_compiler.language`` and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

import noetl_activities
import noetl_compiler
import noetl_temporal
from noetl_activities.sinks import DATABASE_FIELDS
from noetl_activities.tool import BUILT_IN
from noetl_compiler.language.constructs import CONSTRUCTS
from noetl_compiler.language.sinks import TRANSACTIONAL_KINDS
from noetl_compiler.language.tools import IN_WORKFLOW, KINDS
from tests.compiler.declarations import declared_again

COMPILER, ACTIVITIES, TEMPORAL = (
    Path(package.__path__[0]) for package in (noetl_compiler, noetl_activities, noetl_temporal)
)
ROOTS = (COMPILER, ACTIVITIES, TEMPORAL)
LANGUAGE = COMPILER / "language"
MODULES = sorted(
    path
    for root in ROOTS
    for path in root.rglob("*.py")
    if LANGUAGE not in path.parents
    and path.parent != TEMPORAL / "mirror"  # the mirror reads history without the compiler
)

ALLOWED_REPEATS: Mapping[str, str] = {
    "noetl_activities/http/request.py tools.METHODS": "the methods whose data goes into the query",
    "noetl_activities/sinks/__init__.py sinks.TRANSACTIONAL_KINDS": "the fields that name the database of each store",
    "noetl_activities/tool.py sinks.KINDS": "the tools that are registered, see below",
    "noetl_activities/tool.py tools.KINDS": "the tools that are registered, see below",
}
"""Literals that look like a table and are another fact -> which."""


def test_no_fact_is_declared_twice() -> None:
    repeats = {
        f"{path.relative_to(next(root.parent for root in ROOTS if root in path.parents))} {finding.table}": finding.line
        for path in MODULES
        for finding in declared_again(path.read_text())
    }
    assert {place: line for place, line in repeats.items() if place not in ALLOWED_REPEATS} == {}
    assert repeats.keys() >= ALLOWED_REPEATS.keys(), "an exception that nothing needs"


def test_all_modules_are_looked_at() -> None:
    sample_files = {COMPILER / "dialects" / "sinks.py", ACTIVITIES / "sql.py", TEMPORAL / "machine" / "policy.py"}
    assert sample_files <= set(MODULES)


@pytest.mark.parametrize(
    ("source", "table"),
    [
        ('STORES = frozenset({"postgres", "duckdb"})', "sinks.TRANSACTIONAL_KINDS"),
        ('SINKS = ["http", "python", "postgres", "duckdb", "gcs"]', "sinks.KINDS"),
        ('if kind in ("postgres", "duckdb"): pass', "sinks.TRANSACTIONAL_KINDS"),
        ('STORE_KEYS = ("tool", "type", "kind", "storage", "backend")', "sinks.KIND_KEYS"),
        ('CONFIG = {"key": ("key", "keys", "key_columns")}', "sinks.VALUE_KEYS[key]"),
        ('MODES = {"insert": "insert", "append": "append", "upsert": "upsert", "merge": "merge"}', "words.SINK_MODES"),
        ('Mode = Literal["sequential", "parallel", "chunked", "async"]', "words.LOOP_MODES"),
        ('BACKOFF = described_words({"none": "None.", "linear": "More.", "exponential": "Twice."})', "words.BACKOFFS"),
        ('Property("mode", "Which routes.", words("exclusive", "inclusive"))', "words.ROUTE_MODES"),
        ('failed = {"step.failed", "call.error", "step.exit"}', "events.names_of(step.failed)"),
        ('EVENTS = "step.enter call.done call.error step.exit loop.item loop.done".split()', "events.CASE_EVENTS"),
        ('_WORKLOAD = frozenset({"workload", "work"})', "names.WORKLOAD"),
        ('_SOMETIMES = {"error", "last_error", "status_code"}', "names.OPTIONAL_OUTCOME_NAMES"),
        ('_ROWS = {"postgres", "duckdb", "ducklake", "snowflake"}', "tools.SQL_KINDS"),
        ('IDEMPOTENT = ("http", "shell", "nats")', "tools.KINDS"),
        ('RETRIED = {"timeout", "connection", "dns", "rate_limit"}', "error_kinds.ERROR_KINDS"),
        ('KEYS = ("credential", "credential_ref", "key")', "keychain.CREDENTIAL_FIELDS"),
        ('END = ["type", "kind", "tool"]', "transfers.KIND_KEYS"),
        ('older=("args", "with", "data", "payload")', "keys.ROUTE_INPUT"),
        ("DEFAULT_PAGES, DEFAULT_ATTEMPTS = 100, 3", "defaults.ATTEMPTS"),
        ("DEFAULT_PAGES = 100", "defaults.PAGES"),
        ("rule = Rule(attempts=Value(3))", "defaults.ATTEMPTS"),
        ("rule = Rule(multiplier=fields.number('multiplier') or 2.0)", "defaults.MULTIPLIER"),
        ("class Rule:\n    multiplier: float = 2.0", "defaults.MULTIPLIER"),
        ("IN_FLIGHT = 16", "defaults.IN_FLIGHT"),
        ('about = "How often to call in total, 3 unless given."', "defaults"),
        ('_DURATION = r"\\d+(ms|s|m|h|d)?"', "quantities"),
        ('_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}', "quantities.UNITS"),
    ],
)
def test_a_second_declaration_is_found(source: str, table: str) -> None:
    assert table in {finding.table for finding in declared_again(source)}


@pytest.mark.parametrize(
    "source",
    [
        'RUNNERS = {"postgres": run_postgres, "duckdb": run_duckdb}',
        'PHRASES: Mapping[Backoff, str] = {"none": "", "linear": "more", "exponential": "twice"}',
        'if event in ("call.done", "call.error"): pass',
        'NAMES = frozenset({"table", "row", "column"})',
        "PORT, LIMIT = 100, 3",
        "attempts = 1",
    ],
)
def test_other_literals_are_no_declarations(source: str) -> None:
    assert declared_again(source) == []


def test_workers_have_the_stores_and_tools_that_the_language_declares_runnable() -> None:
    """The registry of tools is imported by each of their processes, so it has a list of its own."""
    assert DATABASE_FIELDS.keys() == TRANSACTIONAL_KINDS
    assert {name for name, kind in KINDS.items() if kind.has_executor} == BUILT_IN | IN_WORKFLOW


def test_descriptions_of_keys_are_in_the_tables_only() -> None:
    descriptions = {key.about for construct in CONSTRUCTS.values() for key in construct.keys if len(key.about) > 28}
    literals = {
        (path.name, node.value)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert {(name, text) for name, text in literals if text in descriptions} == set()
