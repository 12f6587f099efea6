"""Read files of playbook tests (``*.test.yaml``) as values with their spans.

As for playbooks, problems are diagnostics, and nothing is raised. If one is an error, no test of the file must be run.
The keys are those of language/constructs/playbook_tests.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, sort_and_dedupe
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import kind_of
from noetl_compiler.graph import Json
from noetl_compiler.language.construct import Construct
from noetl_compiler.language.constructs import playbook_tests as tables
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, to_json
from noetl_compiler.playbook_test_requests import Request, read_integer, read_request, read_seconds
from noetl_compiler.reader import read
from noetl_compiler.report import Report
from noetl_compiler.source import SourceFile, Span
from noetl_compiler.syntax import Name

__all__ = [
    "CallSelector",
    "ExpectedCalls",
    "PlaybookTest",
    "Request",
    "Stub",
    "StubError",
    "StubResponse",
    "Suite",
    "read_tests",
]


@dataclass(frozen=True)
class CallSelector:
    """Selects the calls of a step, or of one of its tasks, iterations or pages."""

    step: Name
    task: Name | None
    iteration: int | None
    page: int | None

    def __str__(self) -> str:
        parts = (("task", self.task.text if self.task else None), ("iteration", self.iteration), ("page", self.page))
        return ", ".join((self.step.text, *(f"{word} {part}" for word, part in parts if part is not None)))


@dataclass(frozen=True)
class StubResponse:
    """A response to an http call."""

    status: int
    headers: dict[str, str]
    body: Json


@dataclass(frozen=True)
class StubError:
    """The error of a call. ``retry_after`` in seconds."""

    message: str
    kind: str = "exception"
    code: str | None = None
    retryable: bool = False
    retry_after: float | None = None


@dataclass(frozen=True)
class Stub:
    """The outcome of selected calls: a ``result``, ``rows``, a response or an error. ``takes`` is their duration in
    seconds. With ``attempt`` it is that of this attempt only, with ``times`` that of so many calls.
    """

    calls: CallSelector
    span: Span
    attempt: int | None
    times: int | None
    result: Json
    rows: list[dict[str, Json]] | None
    http: StubResponse | None
    error: StubError | None
    sink_error: StubError | None
    takes: float


@dataclass(frozen=True)
class ExpectedCalls:
    """Calls that must be made. ``expected_values`` maps keys to the values that each call must have."""

    calls: CallSelector
    span: Span
    times: int | None
    expected_values: dict[str, Node]


@dataclass(frozen=True)
class PlaybookTest:
    """One test. ``expected`` has the expectations about the run, by key; ``calls`` those about its calls."""

    name: str
    span: Span
    payload: dict[str, Json]
    stubs: tuple[Stub, ...]
    requests: tuple[Request, ...]
    expected: dict[str, Node]
    calls: tuple[ExpectedCalls, ...]


@dataclass(frozen=True)
class Suite:
    """A file of tests. ``playbook`` is None if the file names none."""

    source: SourceFile
    playbook: Name | None = None
    tests: tuple[PlaybookTest, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def read_tests(source: SourceFile) -> Suite:
    """Return the tests in a text, as far as they can be parsed."""
    root, errors = read(source)
    report = Report(source, errors, root)
    playbook: Name | None = None
    tests: tuple[PlaybookTest, ...] = ()
    if isinstance(root, MappingNode):
        fields = ConstructFields(root, report, tables.TEST_FILE)
        playbook = fields.name("playbook")
        tests = tuple(_read_test(test_fields) for test_fields in _read_mappings(fields, "tests", tables.TEST))
        fields.check_keys()
        if isinstance(tests_node := root.get("tests"), SequenceNode) and not tests_node.items:
            report.error(Code.MISSING_FIELD, tests_node.span, "there is no test in the list")
    elif root is not None:
        report.error(Code.WRONG_TYPE, root.span, f"a test file is a mapping, not {kind_of(root)}", "write tests: [...]")
    return Suite(source, playbook, tests, sort_and_dedupe(report.diagnostics))


def _read_mappings(fields: ConstructFields, key: str, construct: Construct) -> Iterator[ConstructFields]:
    """Yield the items of a list that are mappings; report others."""
    for node in fields.items(key):
        if isinstance(node, MappingNode):
            yield ConstructFields(node, fields.report, construct)
        else:
            message = f'"{key}" must be a list of mappings, and this is {kind_of(node)}'
            fields.report.error(Code.WRONG_TYPE, node.span, message)


def _read_test(fields: ConstructFields) -> PlaybookTest:
    name = fields.required_name("name")
    payload = fields.mapping("payload")
    stubs = tuple(_read_stub(part) for part in _read_mappings(fields, "stubs", tables.STUB))
    requests = tuple(map(read_request, _read_mappings(fields, "requests", tables.REQUEST)))
    expect = ConstructFields.nested(fields, "expect", tables.EXPECTATION)
    expected, calls = _read_expectation(expect) if expect else ({}, ())
    fields.check_keys()
    request_payload = cast("dict[str, Json]", to_json(payload)) if payload else {}
    title, span = (name.text, name.span) if name else ("", fields.span)
    return PlaybookTest(title, span, request_payload, stubs, tuple(filter(None, requests)), expected, calls)


# ---- stubs -----------------------------------------------------------------------------------------------------------


def _read_calls(fields: ConstructFields) -> CallSelector:
    step = fields.required_name("step") or Name("", fields.span)
    return CallSelector(step, fields.name("task"), read_integer(fields, "iteration"), read_integer(fields, "page"))


_OUTCOME_KEYS = ("result", "rows", "http", "error")


def _read_stub(fields: ConstructFields) -> Stub:
    outcome_keys = [key for key in _OUTCOME_KEYS if fields.node.get(key) is not None]
    for key in outcome_keys[1:]:
        span = cast("Node", fields.node.get(key)).span
        fields.report.error(Code.CONFLICTING_FIELDS, span, f'"{key}" beside "{outcome_keys[0]}"', "keep one of them")
    result = fields.node_of("result")
    stub = Stub(
        calls=_read_calls(fields),
        span=fields.span,
        attempt=read_integer(fields, "attempt"),
        times=read_integer(fields, "times"),
        result=to_json(result) if result else None,
        rows=_read_rows(fields) if "rows" in outcome_keys else None,
        http=_read_http(fields),
        error=_read_error(fields, "error"),
        sink_error=_read_error(fields, "sink_error"),
        takes=read_seconds(fields, "takes") or 0.0,
    )
    fields.check_keys()
    return stub


def _read_rows(fields: ConstructFields) -> list[dict[str, Json]]:
    rows = fields.items("rows")
    for row in rows:
        if not isinstance(row, MappingNode):
            fields.report.error(Code.WRONG_TYPE, row.span, f"a row is a mapping, not {kind_of(row)}")
    return [cast("dict[str, Json]", to_json(row)) for row in rows if isinstance(row, MappingNode)]


def _read_http(fields: ConstructFields) -> StubResponse | None:
    response = ConstructFields.nested(fields, "http", tables.HTTP_RESPONSE)
    if response is None:
        return None
    status, headers, body = read_integer(response, "status"), response.mapping("headers"), response.node_of("body")
    response.check_keys()
    header_values = cast("dict[str, Json]", to_json(headers)) if headers else {}
    header_strings = {name: str(value) for name, value in header_values.items()}
    return StubResponse(200 if status is None else status, header_strings, to_json(body) if body else None)


def _read_error(fields: ConstructFields, key: str) -> StubError | None:
    node = fields.node_of(key)
    if node is None or isinstance(node, ScalarNode):
        return None if node is None else StubError(node.text)
    error_fields = ConstructFields.nested(fields, key, tables.STUB_ERROR)
    if error_fields is None:
        return None
    kind = error_fields.text("kind") or StubError.kind
    message = error_fields.text("message") or f"{kind} of the test"
    retry_after = error_fields.number("retry_after")
    stub_error = StubError(
        message, kind, error_fields.text("code") or None, error_fields.flag("retryable") or False, retry_after
    )
    error_fields.check_keys()
    return stub_error


# ---- expectations ----------------------------------------------------------------------------------------------------

_NULLABLE = ("result", "error")
"""Keys whose expected value may be null."""

_LISTS = ("route", "steps", "delays", "events", "failures")


def _read_expectation(fields: ConstructFields) -> tuple[dict[str, Node], tuple[ExpectedCalls, ...]]:
    calls = tuple(_read_expected_calls(part) for part in _read_mappings(fields, "calls", tables.EXPECTED_CALL))
    fields.choice("status", tables.STATUSES)
    for key in _LISTS:
        fields.items(key)
    for key in ("results", "stored"):
        fields.mapping(key)
    for part in _read_mappings(fields, "failures", tables.EXPECTED_FAILURE):
        part.check_keys()
    for node in fields.items("events"):
        if isinstance(node, MappingNode):
            ConstructFields(node, fields.report, tables.EXPECTED_EVENT).check_keys()
    fields.check_keys()
    return _values_by_key(fields), calls


def _read_expected_calls(fields: ConstructFields) -> ExpectedCalls:
    calls, times = _read_calls(fields), read_integer(fields, "times")
    for key in ("config", "input"):
        fields.mapping(key)
    read_integer(fields, "attempts")
    fields.check_keys()
    expected_values = {
        key: node for key, node in _values_by_key(fields).items() if key in ("attempts", "config", "input")
    }
    return ExpectedCalls(calls, fields.span, times, expected_values)


def _values_by_key(fields: ConstructFields) -> dict[str, Node]:
    """Return the values by key. A null counts as absent, except for the keys in ``_NULLABLE``."""
    entries = ((key.text, node) for key, node in fields.node.entries)
    return {key: node for key, node in entries if key in fields or key in _NULLABLE}
