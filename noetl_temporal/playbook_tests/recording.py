"""Writes a test from a run: its calls as stubs, its requests, and its outcome as expectations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from noetl_compiler.graph import Json
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.playbook_test_requests import SENT_WHILE_RUNNING
from noetl_compiler.playbook_tests import read_tests
from noetl_compiler.source import SourceFile
from noetl_temporal.machine.call import AttemptRecord
from noetl_temporal.messages.run_input import RunReport
from noetl_temporal.naming import SUCCEEDED
from noetl_temporal.playbook_tests.differences import ANYTHING
from noetl_temporal.playbook_tests.expectations import TrialProblem, route_of
from noetl_temporal.playbook_tests.recorded_requests import RecordedRequest
from noetl_temporal.playbook_tests.recorded_runs import RecordedCall, RecordedRun
from noetl_temporal.playbook_tests.trial import run_test
from noetl_temporal.submission.catalog_store import split_version

__all__ = ["recorded_test"]

_LOST_ERROR: Mapping[str, Json] = {"kind": "worker_lost", "message": "no worker finished the call", "retryable": True}
_OMITTED_HEADERS = frozenset({"content-length", "date", "server", "connection", "content-type"})
"""Headers of a response that a stub does not need."""

_STATUS_CODE = re.compile(r"HTTP_(\d{3})")
"""The code of the error of a response."""

_NOOP = "noop"
_WIDTH = 120


def recorded_test(run: RecordedRun, report: RunReport, tools: Tools) -> tuple[str, tuple[TrialProblem, ...]]:
    """Return the text of a test file, and the problems of the test when it is run now.

    Requests are sent as soon as the run waits for them; a pause or a cancel is sent during the same call as in the
    run. If the test then differs from the run, requests are sent at their recorded times, and calls take their recorded
    durations.
    """
    if all(request.keys["do"] not in SENT_WHILE_RUNNING or _step_at(run, request) for request in run.requests):
        test = _record_and_run(run, report, tools, is_timed=False)
        if not test[1] or not run.requests:
            return test
    return _record_and_run(run, report, tools, is_timed=True)


def _record_and_run(
    run: RecordedRun, report: RunReport, tools: Tools, *, is_timed: bool
) -> tuple[str, tuple[TrialProblem, ...]]:
    test: dict[str, Json] = {"name": f"as recorded in run {report.execution_id}"}
    if run.payload:
        test["payload"] = run.payload
    test["stubs"] = _stubs(run, is_timed=is_timed)
    if run.requests:
        requests = [
            request for recorded_request in run.requests for request in [recorded_request] * recorded_request.count
        ]
        test["requests"] = [_request_keys(run, request, is_timed=is_timed) for request in requests]
    test["expect"] = _expectation(run, report)
    document: dict[str, Json] = {"playbook": _file_name(run.graph.source.file), "tests": [test]}
    [playbook_test] = read_tests(SourceFile("recorded.test.yaml", _yaml(document))).tests
    result = run_test(playbook_test, run.graph, tools)
    if result.passed:
        test["expect"] = {"route": route_of(result.run), **test["expect"]}
        del test["expect"]["steps"]
    return _yaml(document), result.problems


def _request_keys(run: RecordedRun, request: RecordedRequest, *, is_timed: bool) -> dict[str, Json]:
    if is_timed:
        return {**request.keys, "at": max(0, request.at - run.started) / 1000}
    step = _step_at(run, request) if request.keys["do"] in SENT_WHILE_RUNNING else None
    return {**request.keys, "step": step} if step else request.keys


def _step_at(run: RecordedRun, request: RecordedRequest) -> str | None:
    """Return the step of a call during which the request arrived."""
    return next((call.call.step for call in run.calls.values() if call.is_running_at(request.at)), None)


def _file_name(source: str) -> str:
    """Return the name of the playbook's file. A catalog version such as ``etl/load@3`` has none: load.yaml."""
    path, version = split_version(source)
    return Path(source).name if version is None else f"{Path(path).name}.yaml"


def _yaml(document: dict[str, Json]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=_WIDTH)


def _expectation(run: RecordedRun, report: RunReport) -> dict[str, Json]:
    steps = run.graph.steps
    started = [name for name, step in report.steps.items() if step["status"] != "skipped"]
    expected: dict[str, Json] = {
        "status": report.status,
        "steps": [name for name in started if name in steps and not steps[name].is_synthetic],
    }
    if report.status in SUCCEEDED:
        expected["result"] = _without_times(report.result)
    failures = report.failures.detailed
    if report.failures.total == len(failures):
        expected["failures"] = [
            _failure(failure.step, failure.kind, failure.message, failure.iteration) for failure in failures
        ]
    return expected


_DECISION_KEYS = frozenset({"approved", "by", "at", "reason", "form"})


def _without_times(value: Json) -> Json:
    """Return the value with ``...`` for the times of its decisions, which differ in a test."""
    if isinstance(value, dict):
        mapping = {key: _without_times(item) for key, item in cast("dict[str, Json]", value).items()}
        return {**mapping, "at": ANYTHING} if mapping.keys() == _DECISION_KEYS else mapping
    return [_without_times(item) for item in cast("list[Json]", value)] if isinstance(value, list) else value


def _failure(step: str, kind: str, message: str, iteration: int | None) -> dict[str, Json]:
    fields: dict[str, Json] = {"step": step, "kind": kind, "message": message, "iteration": iteration}
    return {key: value for key, value in fields.items() if value is not None}


# ---- stubs -----------------------------------------------------------------------------------------------------------


def _stubs(run: RecordedRun, *, is_timed: bool) -> list[dict[str, Json]]:
    """Return a stub for each attempt that ended. If several have the same keys, each is used once, in order."""
    stubs = [stub for call in run.calls.values() for stub in _call_stubs(call, is_timed=is_timed)]
    counts = Counter(_identity(stub) for stub in stubs)
    return [_limit_to_one_use(stub) if counts[_identity(stub)] > 1 else stub for stub in stubs]


_IDENTITY_KEYS = ("step", "task", "iteration", "page", "attempt")


def _identity(stub: dict[str, Json]) -> tuple[Json, ...]:
    return tuple(stub.get(key) for key in _IDENTITY_KEYS)


def _limit_to_one_use(stub: dict[str, Json]) -> dict[str, Json]:
    identity = {key: stub[key] for key in _IDENTITY_KEYS if key in stub}
    return {**identity, "times": 1, **stub}


def _call_stubs(recorded_call: RecordedCall, *, is_timed: bool) -> Iterator[dict[str, Json]]:
    call, report = recorded_call.call, recorded_call.report
    if call.kind == _NOOP or call.outcome_to_store is not None:
        return
    keys: dict[str, Json] = {"step": call.step, "task": call.task, "iteration": call.iteration, "page": call.page}
    identity = {key: value for key, value in keys.items() if value is not None}
    if report is None:
        yield {**identity, "error": dict(_LOST_ERROR)}
        return
    failed = [record for record in report.attempts[:-1] if record.status == "error"]
    for number, record in enumerate(failed, start=1):
        yield {
            **identity,
            "attempt": number,
            **_failed_attempt(call.kind, record.error or {}),
            **_duration(record, is_timed=is_timed),
        }
    attempt_key = {"attempt": len(failed) + 1} if failed else {}
    duration = _duration(report.attempts[-1], is_timed=is_timed) if report.attempts else {}
    yield {**identity, **attempt_key, **_last_outcome(call.kind, report.outcome, report.attempts), **duration}


def _duration(record: AttemptRecord, *, is_timed: bool) -> dict[str, Json]:
    """Return how long the attempt took, if times matter."""
    return {"takes": (record.ended - record.started) / 1000} if is_timed and record.ended else {}


def _last_outcome(kind: str, outcome: dict[str, Any], attempts: tuple[AttemptRecord, ...]) -> dict[str, Json]:
    """Return the stub fields for the outcome of the last attempt. If a sink failed, that is the sink's error."""
    if kind == "http" and outcome.get("http") and not any(sink.status == "error" for sink in attempts[-1].sinks):
        return {"http": _http_response(outcome)}
    if outcome["status"] == "ok":
        return {"result": outcome.get("result")}
    return {"error": _error(outcome["error"])}


def _failed_attempt(kind: str, error: dict[str, Any]) -> dict[str, Json]:
    """Return the stub fields for a failed attempt that was retried. Of its response, history has only the status."""
    status = _STATUS_CODE.fullmatch(str(error.get("code"))) if kind == "http" else None
    if status is None:
        return {"error": _error(error)}
    retry_after = error.get("retry_after")
    headers: dict[str, Json] = {} if retry_after is None else {"headers": {"retry-after": f"{retry_after:.0f}"}}
    return {"http": {"status": int(status[1]), **headers}}


def _http_response(outcome: dict[str, Any]) -> dict[str, Json]:
    """Return the HTTP response of a call. The body of an error response is a string."""
    http, result = outcome["http"], outcome.get("result")
    meta: dict[str, Json] = outcome.get("meta") or {}
    body: Json = cast("dict[str, Json]", result).get("data") if isinstance(result, dict) else meta.get("body")
    headers = {name: value for name, value in http.get("headers", {}).items() if name not in _OMITTED_HEADERS}
    fields: dict[str, Json] = {"status": http["status"], "headers": headers, "body": body}
    return {key: value for key, value in fields.items() if value not in (None, {})}


def _error(error: dict[str, Any]) -> dict[str, Json]:
    keys = ("message", "kind", "code", "retryable", "retry_after")
    return {key: error[key] for key in keys if error.get(key) not in (None, False)}
