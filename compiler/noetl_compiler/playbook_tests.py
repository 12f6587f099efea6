"""Reads files of playbook tests (``*.test.yaml``): YAML to values that know their places.

As for playbooks, nothing here raises: what is wrong is a diagnostic, and one that is an error means that no test of the
file is to be run. The keys are those of language/constructs/playbook_tests.py.
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
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, plain
from noetl_compiler.playbook_test_requests import Request, number_of, read_request, seconds_of
from noetl_compiler.reader import read
from noetl_compiler.report import Report
from noetl_compiler.source import SourceFile, Span
from noetl_compiler.syntax import Name

__all__ = [
    "Calls",
    "ExpectedCalls",
    "HttpAnswer",
    "PlaybookTest",
    "Request",
    "Stub",
    "StubError",
    "Suite",
    "read_tests",
]


@dataclass(frozen=True)
class Calls:
    """Names calls: those of a step, or of one of its tasks, items, pages."""

    step: Name
    task: Name | None
    iteration: int | None
    page: int | None

    def __str__(self) -> str:
        parts = (("task", self.task.text if self.task else None), ("iteration", self.iteration), ("page", self.page))
        return ", ".join((self.step.text, *(f"{word} {part}" for word, part in parts if part is not None)))


@dataclass(frozen=True)
class HttpAnswer:
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
    """What calls return: a ``result``, ``rows`` of a statement, a response or an error. ``takes`` in seconds."""

    calls: Calls
    span: Span
    attempt: int | None
    times: int | None
    result: Json
    rows: list[dict[str, Json]] | None
    http: HttpAnswer | None
    error: StubError | None
    sink_error: StubError | None
    takes: float


@dataclass(frozen=True)
class ExpectedCalls:
    """Calls that must be made, and what each must have: the nodes of ``has`` by the name of the fact."""

    calls: Calls
    span: Span
    times: int | None
    has: dict[str, Node]


@dataclass(frozen=True)
class PlaybookTest:
    """One test. ``expected`` are the expectations about the run, by key; ``calls`` those about calls."""

    name: str
    span: Span
    payload: dict[str, Json]
    stubs: tuple[Stub, ...]
    requests: tuple[Request, ...]
    expected: dict[str, Node]
    calls: tuple[ExpectedCalls, ...]


@dataclass(frozen=True)
class Suite:
    """A file of tests. ``playbook`` is None where it names none."""

    source: SourceFile
    playbook: Name | None = None
    tests: tuple[PlaybookTest, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def read_tests(source: SourceFile) -> Suite:
    """Return the tests in a text, as far as they can be parsed."""
    root, unreadable = read(source)
    report = Report(source, unreadable, root)
    found = Suite(source)
    if isinstance(root, MappingNode):
        fields = ConstructFields(root, report, tables.TEST_FILE)
        playbook = fields.name("playbook")
        tests = tuple(_test(one) for one in _each(fields, "tests", tables.TEST))
        fields.close()
        if isinstance(listed := root.get("tests"), SequenceNode) and not listed.items:
            report.error(Code.MISSING_FIELD, listed.span, "there is no test in the list")
        found = Suite(source, playbook, tests)
    elif root is not None:
        report.error(Code.WRONG_TYPE, root.span, f"a test file is a mapping, not {kind_of(root)}", "write tests: [...]")
    return Suite(source, found.playbook, found.tests, sort_and_dedupe(report.found))


def _each(fields: ConstructFields, key: str, construct: Construct) -> Iterator[ConstructFields]:
    """Yield the items of a list that are such mappings; others are reported."""
    for node in fields.items(key):
        if isinstance(node, MappingNode):
            yield ConstructFields(node, fields.report, construct)
        else:
            message = f'"{key}" must be a list of mappings, and this is {kind_of(node)}'
            fields.report.error(Code.WRONG_TYPE, node.span, message)


def _test(fields: ConstructFields) -> PlaybookTest:
    name = fields.required_name("name")
    payload = fields.mapping("payload")
    stubs = tuple(_stub(one) for one in _each(fields, "stubs", tables.STUB))
    requests = tuple(map(read_request, _each(fields, "requests", tables.REQUEST)))
    expect = ConstructFields.below(fields, "expect", tables.EXPECTATION)
    expected, calls = _expectation(expect) if expect else ({}, ())
    fields.close()
    asked = cast("dict[str, Json]", plain(payload)) if payload else {}
    title, span = (name.text, name.span) if name else ("", fields.span)
    return PlaybookTest(title, span, asked, stubs, tuple(filter(None, requests)), expected, calls)


# ---- stubs -----------------------------------------------------------------------------------------------------------


def _calls(fields: ConstructFields) -> Calls:
    step = fields.required_name("step") or Name("", fields.span)
    return Calls(step, fields.name("task"), number_of(fields, "iteration"), number_of(fields, "page"))


_ANSWERS = ("result", "rows", "http", "error")


def _stub(fields: ConstructFields) -> Stub:
    given = [key for key in _ANSWERS if fields.node.get(key) is not None]
    for key in given[1:]:
        place = cast("Node", fields.node.get(key)).span
        fields.report.error(Code.CONFLICTING_FIELDS, place, f'"{key}" beside "{given[0]}"', "keep one of them")
    result = fields.node_of("result")
    stub = Stub(
        calls=_calls(fields),
        span=fields.span,
        attempt=number_of(fields, "attempt"),
        times=number_of(fields, "times"),
        result=plain(result) if result else None,
        rows=_rows(fields) if "rows" in given else None,
        http=_http(fields),
        error=_error(fields, "error"),
        sink_error=_error(fields, "sink_error"),
        takes=seconds_of(fields, "takes") or 0.0,
    )
    fields.close()
    return stub


def _rows(fields: ConstructFields) -> list[dict[str, Json]]:
    rows = fields.items("rows")
    for row in rows:
        if not isinstance(row, MappingNode):
            fields.report.error(Code.WRONG_TYPE, row.span, f"a row is a mapping, not {kind_of(row)}")
    return [cast("dict[str, Json]", plain(row)) for row in rows if isinstance(row, MappingNode)]


def _http(fields: ConstructFields) -> HttpAnswer | None:
    answer = ConstructFields.below(fields, "http", tables.HTTP_RESPONSE)
    if answer is None:
        return None
    status, headers, body = number_of(answer, "status"), answer.mapping("headers"), answer.node_of("body")
    answer.close()
    named = cast("dict[str, Json]", plain(headers)) if headers else {}
    texts = {name: str(value) for name, value in named.items()}
    return HttpAnswer(200 if status is None else status, texts, plain(body) if body else None)


def _error(fields: ConstructFields, key: str) -> StubError | None:
    found = fields.node_of(key)
    if found is None or isinstance(found, ScalarNode):
        return None if found is None else StubError(found.text)
    error = ConstructFields.below(fields, key, tables.STUB_ERROR)
    if error is None:
        return None
    kind = error.text("kind") or StubError.kind
    message = error.text("message") or f"{kind} of the test"
    retry_after = error.number("retry_after")
    read_error = StubError(message, kind, error.text("code") or None, error.flag("retryable") or False, retry_after)
    error.close()
    return read_error


# ---- expectations ----------------------------------------------------------------------------------------------------

_NULLABLE = ("result", "error")
"""What may be expected to be null."""

_LISTS = ("route", "steps", "delays", "events", "failures")


def _expectation(fields: ConstructFields) -> tuple[dict[str, Node], tuple[ExpectedCalls, ...]]:
    calls = tuple(_expected_calls(one) for one in _each(fields, "calls", tables.EXPECTED_CALL))
    fields.choice("status", tables.STATUSES)
    for key in _LISTS:
        fields.items(key)
    for key in ("results", "stored"):
        fields.mapping(key)
    for one in _each(fields, "failures", tables.EXPECTED_FAILURE):
        one.close()
    for node in fields.items("events"):
        if isinstance(node, MappingNode):
            ConstructFields(node, fields.report, tables.EXPECTED_EVENT).close()
    fields.close()
    return _values_by_key(fields), calls


def _expected_calls(fields: ConstructFields) -> ExpectedCalls:
    calls, times = _calls(fields), number_of(fields, "times")
    for key in ("config", "input"):
        fields.mapping(key)
    number_of(fields, "attempts")
    fields.close()
    has = {key: node for key, node in _values_by_key(fields).items() if key in ("attempts", "config", "input")}
    return ExpectedCalls(calls, fields.span, times, has)


def _values_by_key(fields: ConstructFields) -> dict[str, Node]:
    """Return the values there, by key. A null counts as absent, unless the value may be expected to be one."""
    found = ((key.text, node) for key, node in fields.node.entries)
    return {key: node for key, node in found if key in fields or key in _NULLABLE}
