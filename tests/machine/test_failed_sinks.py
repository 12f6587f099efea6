"""A sink that fails is located at the sink, in every form that a dialect has for it."""

from __future__ import annotations

import pytest

from noetl_temporal.machine.call import ToolCall, ToolReport

from .driver import Run, ok, run_text

V1 = "apiVersion: noetl.io/v1\nkind: Playbook\nname: x\npath: x\nworkload: {items: [1]}\nworkflow:\n"
V10 = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\nworkload: {items: [1]}\nworkflow:\n"
END = "    next: [{step: end}]\n  - step: end\n"

SINK = "{tool: duckdb, table: mark, data: {n: 1}}"
KIND = "{kind: duckdb, table: mark, data: {n: 1}}"
CALL = "{kind: duckdb, table: mark}"
DONE, FAILED = ("\"{{ event.name == 'call.done' }}\"", "\"{{ event.name == 'call.error' }}\"")
HTTP = "{kind: http, url: 'http://api.test/mark'}"

FORMS = {
    "v1 step": (V1, f"  - step: start\n    type: python\n    code: result = 1\n    sink: {SINK}\n", SINK),
    "v1 save": (
        V1,
        "  - step: start\n    type: python\n    code: result = 1\n    save: {storage: duckdb, table: mark}\n",
        "{storage",
    ),
    "v1 rule": (
        V1,
        (
            "  - step: start\n    type: python\n    code: result = 1\n    case:\n"
            f"      - when: 'true'\n        sink: {SINK}\n"
        ),
        SINK,
    ),
    "v1 iterator": (
        V1,
        "  - step: start\n    type: iterator\n    collection: '{{ workload.items }}'\n    element: item\n"
        "    task: {type: python, code: result = 1, save: {storage: duckdb, table: mark}}\n" + END,
        "{storage",
    ),
    "v1 loop": (
        V1,
        "  - step: start\n    loop: {in: '{{ workload.items }}', iterator: item}\n    next: [{step: work}]\n"
        f"  - step: work\n    type: python\n    code: result = 1\n    sink: {SINK}\n    next: [{{step: close}}]\n"
        "  - step: close\n    end_loop: start\n" + END,
        SINK,
    ),
    "v1 workbook": (
        V1,
        (
            "  - {step: start, type: workbook, name: work}\nworkbook:\n"
            f"  - name: work\n    type: python\n    code: result = 1\n    sink: {SINK}\n"
        ),
        SINK,
    ),
    "legacy step": (V1, f"  - step: start\n    tool: python\n    code: result = 1\n    sink: {SINK}\n{END}", SINK),
    "legacy loop": (
        V1,
        (
            "  - step: start\n    tool: python\n    code: result = 1\n"
            f"    loop: {{collection: [1], element: one}}\n    sink: {SINK}\n{END}"
        ),
        SINK,
    ),
    "legacy page": (
        V1,
        (
            "  - step: start\n    tool: http\n    url: http://api.test\n    retry:\n      on_success:\n"
            "        while: '{{ response.more }}'\n        next_call: {params: {page: 2}}\n"
            f"        collect: {{strategy: append, path: rows, into: all}}\n"
            f"        per_iteration: {{sink: {SINK}}}\n{END}"
        ),
        SINK,
    ),
    "legacy sequence": (
        V1,
        (
            "  - step: start\n    tool: http\n    url: http://api.test\n    retry:\n      on_success:\n"
            "        while: '{{ response.more }}'\n        next_call: {params: {page: 2}}\n"
            f"        collect: {{strategy: append, path: rows, into: all}}\n    sink: {SINK}\n{END}"
        ),
        SINK,
    ),
    "legacy http": (
        V1,
        f"  - step: start\n    tool: python\n    code: result = 1\n    sink: {{tool: http, url: 'http://a.test'}}\n{END}",
        "{tool: http",
    ),
    "case": (
        V10,
        (
            "  - step: start\n    tool: {kind: python, code: result = 1}\n    case:\n"
            f"      - when: {DONE}\n        then: {{sink: {{tool: {CALL}}}, next: end}}\n  - step: end\n"
        ),
        f"{{tool: {CALL}}}",
    ),
    "case tool": (
        V10,
        (
            "  - step: start\n    tool: {kind: python, code: result = 1}\n    case:\n"
            f"      - when: {DONE}\n        then: {{sink: {{tool: {HTTP}}}, next: end}}\n  - step: end\n"
        ),
        f"{{tool: {HTTP}}}",
    ),
    "case error": (
        V10,
        (
            "  - step: start\n    tool: {kind: http, url: http://api.test}\n    case:\n"
            f"      - when: {FAILED}\n        then: {{sink: {{tool: {CALL}}}, next: end}}\n  - step: end\n"
        ),
        f"{{tool: {CALL}}}",
    ),
    "case loop": (
        V10,
        (
            "  - step: start\n    loop: {in: [1], iterator: item}\n"
            "    tool: {kind: python, code: result = 1}\n    case:\n"
            f"      - when: {DONE}\n        then: {{sink: {{tool: {CALL}}}}}\n  - step: end\n"
        ),
        f"{{tool: {CALL}}}",
    ),
    "v10 task": (V10, f"  - step: start\n    tool: {{kind: python, code: result = 1, sink: {KIND}}}\n", KIND),
    "v10 second": (
        V10,
        (
            "  - step: start\n    tool:\n      kind: python\n      code: result = 1\n      sink:\n"
            f"        - {{kind: duckdb, table: first}}\n        - {KIND}\n"
        ),
        KIND,
    ),
    "v10 level": (
        V10,
        (
            "  - step: start\n    tool:\n      kind: python\n      code: result = 1\n"
            "      sink: {level: task, kind: duckdb, table: mark}\n"
        ),
        "{level",
    ),
    "v10 loop": (
        V10,
        (
            f"  - step: start\n    spec: {{sink: {KIND}}}\n    loop: {{in: [1], iterator: item}}\n"
            "    tool: {kind: python, code: result = 1}\n"
        ),
        KIND,
    ),
    "v10 framed": (
        V10,
        (
            "  - step: start\n    loop: {in: [1], iterator: item, spec: {frame: {max_rows: 10}}}\n"
            f"    tool: {{kind: python, code: result = 1, sink: {KIND}}}\n"
        ),
        KIND,
    ),
    "v10 http": (V10, f"  - step: start\n    tool: {{kind: python, code: result = 1, sink: {HTTP}}}\n", HTTP),
}

REFUSED_ERROR = {"kind": "connection", "message": "sink: refused", "retryable": False}
LATE_OUTCOME = {"status": "error", "error": {"kind": "timeout", "message": "late"}}


def failing(call: ToolCall) -> ToolReport:
    """Fail the last sink of a call, and calls that are sinks themselves."""
    if call.sinks:
        facts = {"position": 1, "line": 1}
        return ToolReport(
            {"status": "error", "error": REFUSED_ERROR, "pg": facts, "meta": {"sink": call.sinks[-1].key}}
        )
    if call.kind in ("http", "duckdb") and ("mark" in str(call.config) or call.task.startswith("sink")):
        return ToolReport({"status": "error", "error": REFUSED_ERROR})
    return ok({"n": 1, "more": False, "rows": [1]})


def run(form: str) -> tuple[str, Run]:
    head, steps, _ = FORMS[form]

    def answer(call: ToolCall) -> ToolReport:
        if form == "case error" and call.task == "start_task":
            return ToolReport(LATE_OUTCOME)
        return failing(call)

    return head + steps, run_text(head + steps, answer)


@pytest.mark.parametrize("form", FORMS)
def test_a_failed_sink_is_located_at_itself(form: str) -> None:
    text, result = run(form)
    causes = [failure for failure in result.finish.failures.first if failure.message == "sink: refused"]
    assert causes, result.finish
    places = [text.splitlines()[one.line - 1][one.col - 1 :] for one in causes]
    assert all(place.startswith(FORMS[form][2]) for place in places), places


def test_a_sink_that_fails_after_a_handled_failure_is_not_handled_with_it() -> None:
    _, result = run("case error")
    assert result.finish.status == "failed"
    kept_failures = [(failure.message, failure.handled) for failure in result.finish.failures.detailed]
    assert kept_failures == [("late", True), ("sink: refused", False)]


def test_a_failed_sink_stops_the_other_branches_under_fail_fast() -> None:
    head, steps, _ = FORMS["case error"]
    text = head.replace("workload:", "executor: {spec: {policy: {failure: {mode: fail_fast}}}}\nworkload:") + steps
    slow = text.replace("  - step: end\n", "  - {step: other, tool: {kind: noop}}\n  - step: end\n")
    result = run_text(
        slow.replace("next: end}", "next: other}"),
        lambda call: failing(call) if call.task != "start_task" else ToolReport(LATE_OUTCOME),
    )
    assert result.finish.status == "failed"
    assert "other_task" not in [call.task for call in result.calls]
