"""The keys of test files (``*.test.yaml``). They are not keys of playbooks, so CONSTRUCTS does not have them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from noetl_compiler.language.construct import Construct, Key
from noetl_compiler.language.value_types import Choice, Either, ListOf, Nested, Plain
from noetl_compiler.language.words import RUN_RESULTS

__all__ = [
    "EXPECTATION",
    "EXPECTED_CALL",
    "EXPECTED_EVENT",
    "EXPECTED_FAILURE",
    "HTTP_RESPONSE",
    "MOMENTS",
    "REQUEST",
    "REQUESTS",
    "STATUSES",
    "STUB",
    "STUB_ERROR",
    "TEST",
    "TEST_CONSTRUCTS",
    "TEST_FILE",
]

STATUSES: Mapping[str, str] = MappingProxyType({word: word for word in (*RUN_RESULTS, "cancelled")})
"""How a run may end."""

REQUESTS: Mapping[str, str] = MappingProxyType(
    {word: word for word in ("signal", "approve", "reject", "pause", "resume", "retry", "skip", "cancel")}
)
"""The requests that people and programs send to a run, named like the commands."""

MOMENTS: Mapping[str, str] = MappingProxyType({word: word for word in ("waiting", "start")})
"""When a request is sent."""

_STEP = Key("step", "The step that makes the call.", Plain.NAME, required=True)
_TASK = Key("task", "The task of the step; any by default.", Plain.NAME)
_ITERATION = Key("iteration", "The index of the item of the step's loop, from 0; any by default.", Plain.INTEGER)
_PAGE = Key("page", "The page, from 1, of a call that paginates or polls; any by default.", Plain.INTEGER)

TEST_FILE = Construct(
    "test_file",
    "a test file",
    "Tests of one playbook.",
    (
        Key(
            "playbook",
            "The playbook, from the folder of this file. Without it, etl.test.yaml tests etl.yaml beside it.",
            Plain.NAME,
        ),
        Key("tests", "The tests. Each is a separate run.", ListOf(Nested("test"), 1), required=True),
    ),
)

TEST = Construct(
    "test",
    "a test",
    "One run of the playbook: its request, what its calls return, and what is expected of it.",
    (
        Key("name", "What the test shows, in a few words.", Plain.NAME, required=True),
        Key("payload", "The request of the run, merged over the defaults of the workload.", Plain.MAPPING),
        Key(
            "stubs",
            "What the calls return. The first stub that matches is used; a stub that is never used fails the test.",
            ListOf(Nested("stub")),
        ),
        Key(
            "requests",
            "What people and programs send to the run. One that is refused, or that the run never waits for, fails the "
            "test.",
            ListOf(Nested("request")),
        ),
        Key("expect", "What the run is expected to do.", Nested("expectation"), required=True),
    ),
)

REQUEST = Construct(
    "request",
    "a request",
    "A signal, a decision, or what an operator does. It is sent as soon as the run waits for it.",
    (
        Key("do", "The request, named like the noetl command that sends it.", Choice(REQUESTS), required=True),
        Key("name", "The name of the signal.", Plain.NAME),
        Key("key", "The key of the signal, if it has one.", Plain.TEXT),
        Key(
            "step",
            "The step that is approved, rejected, retried or skipped. A pause or a cancel is sent when this step has "
            "started.",
            Plain.NAME,
        ),
        Key("iteration", "The index of the loop item, for a decision, a retry or a skip.", Plain.INTEGER),
        Key("data", "The payload of the signal, or the result of the skipped step."),
        Key("by", "Who sends the request, test by default; not for a signal.", Plain.TEXT),
        Key("reason", "The reason of the request; not for a signal.", Plain.TEXT),
        Key("form", "The form fields that the approver fills in.", Plain.MAPPING),
        Key(
            "when",
            "waiting (the default): as soon as the run waits for it; a resume, as soon as no call is running. start: "
            "when the run starts; a signal is then stored until a step waits for it.",
            Choice(MOMENTS),
        ),
        Key("at", "Instead of when: how long after the start of the run it is sent.", Plain.SECONDS),
    ),
)

STUB = Construct(
    "stub",
    "a stub",
    "What the calls that it names return. Without a result or an error they return null.",
    (
        _STEP,
        _TASK,
        _ITERATION,
        _PAGE,
        Key("attempt", "The attempt of the call, from 1; any by default.", Plain.INTEGER),
        Key("times", "How many attempts the stub applies to; any number by default.", Plain.INTEGER),
        Key("result", "The result of the call; of an http call, the body of a response with status 200."),
        Key("rows", "The rows that a statement returns, as the result of a SQL call.", ListOf(Plain.MAPPING)),
        Key("http", "The response to an http call.", Nested("http_response")),
        Key("error", "The error of the call: a message, or a mapping.", Either((Plain.TEXT, Nested("stub_error")))),
        Key(
            "sink_error",
            "The error of the call's first sink: a message, or a mapping.",
            Either((Plain.TEXT, Nested("stub_error"))),
        ),
        Key(
            "takes", "How long the call takes. The clock of the test advances by this time immediately.", Plain.SECONDS
        ),
    ),
)

HTTP_RESPONSE = Construct(
    "http_response",
    "an http response",
    "A response. Any status but 2xx is an error, as it is for the http tool.",
    (
        Key("status", "The status code; 200 by default.", Plain.INTEGER),
        Key("headers", "The headers of the response.", Plain.MAPPING),
        Key("body", "The body: a string as it is, anything else as JSON."),
    ),
)

STUB_ERROR = Construct(
    "stub_error",
    "an error",
    "The error of a call.",
    (
        Key("message", "The error message.", Plain.TEXT),
        Key("kind", "The kind of error; exception by default.", Plain.NAME),
        Key("code", "The code of the tool, such as an SQLSTATE.", Plain.TEXT),
        Key("retryable", "Whether the same call may succeed later.", Plain.FLAG),
        Key("retry_after", "The delay in seconds that the server asks for.", Plain.NUMBER),
    ),
)

EXPECTATION = Construct(
    "expectation",
    "an expectation",
    'What the run is expected to do. In all values "..." matches anything.',
    (
        Key("status", "How the run ends; completed by default.", Choice(STATUSES)),
        Key("route", "The steps that start, in order.", ListOf(Plain.NAME)),
        Key("steps", "The steps that start, in any order.", ListOf(Plain.NAME)),
        Key("result", "The result of the run."),
        Key("results", "The last result of each named step.", Plain.MAPPING),
        Key("calls", "Expected calls.", ListOf(Nested("expected_call"))),
        Key("stored", "The rows that sinks store, by table, or by statement.", Plain.MAPPING),
        Key(
            "delays",
            "The seconds that pass before retries, pages and jumps, and in waits that last for their full time.",
            ListOf(Plain.NUMBER),
        ),
        Key(
            "events",
            "Events that the log has in this order; there may be others between them.",
            ListOf(Either((Plain.TEXT, Nested("expected_event")))),
        ),
        Key("failures", "All failures, in order; [] if nothing fails.", ListOf(Nested("expected_failure"))),
    ),
)

EXPECTED_CALL = Construct(
    "expected_call",
    "an expected call",
    "The calls of a step: there is at least one, and each matches the other keys here.",
    (
        _STEP,
        _TASK,
        _ITERATION,
        _PAGE,
        Key("times", "The number of such calls; all attempts of a call count as one.", Plain.INTEGER),
        Key("attempts", "The number of attempts of each call.", Plain.INTEGER),
        Key("config", "The rendered fields of the call.", Plain.MAPPING),
        Key("input", "The input of the call.", Plain.MAPPING),
    ),
)

EXPECTED_EVENT = Construct(
    "expected_event",
    "an expected event",
    "An event of the log.",
    (
        Key("type", "The type, such as step.failed.", Plain.NAME, required=True),
        Key("node", "The step or task, or the path of the playbook.", Plain.TEXT),
        Key("status", "The status.", Plain.TEXT),
        Key("result", "The result, if it is small."),
        Key("error", "The error message.", Plain.TEXT),
        Key("meta", "Further data.", Plain.MAPPING),
    ),
)

EXPECTED_FAILURE = Construct(
    "expected_failure",
    "an expected failure",
    "A failure.",
    (
        Key("step", "The step.", Plain.NAME, required=True),
        Key("task", "The task.", Plain.NAME),
        Key("iteration", "The index of the item.", Plain.INTEGER),
        Key("kind", "The kind of error.", Plain.TEXT),
        Key("message", "The error message.", Plain.TEXT),
        Key("handled", "Whether a route handles it.", Plain.FLAG),
    ),
)

TEST_CONSTRUCTS = (
    TEST_FILE,
    TEST,
    STUB,
    REQUEST,
    HTTP_RESPONSE,
    STUB_ERROR,
    EXPECTATION,
    EXPECTED_CALL,
    EXPECTED_EVENT,
    EXPECTED_FAILURE,
)
"""Every construct of a test file, the file itself first."""
