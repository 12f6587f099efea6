"""What v10 says in several ways comes to the same graph: both its spellings, and the looser shapes of other engines."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from noetl_compiler import compile_or_raise, compile_text
from noetl_compiler.diagnostics import Severity

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: forms}\n"
OTHERS = "- {step: other, tool: {kind: noop}, next: {arcs: [{step: end}]}}\n- {step: end}\n"


def without_spans(part: Any) -> Any:
    """The graph's JSON without spans and digest; a template is its text."""
    if isinstance(part, dict):
        tree = cast("dict[str, Any]", part)
        entries = {key: without_spans(item) for key, item in tree.items() if key not in ("span", "digest")}
        return entries | ({"templates": sorted(tree["templates"])} if "templates" in tree else {})
    return [without_spans(item) for item in cast("list[Any]", part)] if isinstance(part, list | tuple) else part


def graph_of(step: str, head: str = "") -> Any:
    text = f"{HEAD}{head}workflow:\n- {{step: start, {step}}}\n{OTHERS}"
    return without_spans(msgspec.to_builtins(compile_or_raise(text)))


TOOL = "tool: {kind: noop}"
CURSOR = "cursor: {kind: postgres, claim: x}, iterator: i"
ERROR = "\"{{ output.status == 'error' }}\""
AGAIN_OR_BREAK = f"rules: [{{when: {ERROR}, then: {{do: retry, attempts: 2}}}}, {{else: {{then: {{do: break}}}}}}]"
ADMIT = "policy: {admit: {rules: [{when: '{{ workload.go }}', then: {allow: true}}, {else: {then: {allow: false}}}]}}"
SAME = {
    "args of a step": (f"args: {{a: 1}}, {TOOL}", f"input: {{a: 1}}, {TOOL}"),
    "args of a task": ("tool: {kind: noop, args: {a: 1}}", "tool: {kind: noop, input: {a: 1}}"),
    "args of an arc": (
        f"{TOOL}, next: {{arcs: [{{step: other, args: {{a: 1}}}}]}}",
        f"{TOOL}, next: {{arcs: [{{step: other, input: {{a: 1}}}}]}}",
    ),
    "set_ctx of a task": ("tool: {kind: noop, set_ctx: {a: 1}}", "tool: {kind: noop, set: {ctx.a: 1}}"),
    "set_ctx and set_iter of a rule": (
        "tool: {kind: noop, spec: {policy: {rules: [{else: {do: continue, set_ctx: {a: 1}, set_iter: {b: 2}}}]}}}",
        "tool: {kind: noop, spec: {policy: {rules: [{else: {do: continue, set: {ctx.a: 1, iter.b: 2}}}]}}}",
    ),
    "set_ctx of an arc": (
        f"{TOOL}, next: {{arcs: [{{step: other, set_ctx: {{a: 1}}}}]}}",
        f"{TOOL}, next: {{arcs: [{{step: other, set: {{ctx.a: 1}}}}]}}",
    ),
    "step.x is set in ctx": (f"{TOOL}, set: {{step.a: 1}}", f"{TOOL}, set: {{ctx.a: 1}}"),
    "a labelled task": ("tool: [{first: {kind: noop}}]", "tool: [{name: first, kind: noop}]"),
    "a task without a name": (
        "tool: [{kind: noop}, {kind: noop}]",
        "tool: [{name: task_0, kind: noop}, {name: task_1, kind: noop}]",
    ),
    "a single tool": (TOOL, "tool: [{name: start_task, kind: noop}]"),
    "spec.result": (
        "tool: {kind: noop, spec: {result: {select: [{path: $.a, as: b}]}}}",
        "tool: {kind: noop, output: {select: [{path: $.a, as: b}]}}",
    ),
    "eval": (
        f"tool: {{kind: noop, eval: [{{expr: {ERROR}, do: retry, attempts: 2}}, {{else: {{do: break}}}}]}}",
        f"tool: {{kind: noop, spec: {{policy: {{{AGAIN_OR_BREAK}}}}}}}",
    ),
    "else of a rule": (
        "tool: {kind: noop, spec: {policy: {rules: [{else: {do: break}}]}}}",
        "tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: break}}}]}}}",
    ),
    "a rule with neither when nor else": (
        "tool: {kind: noop, spec: {policy: {rules: [{then: {do: break}}]}}}",
        "tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: break}}}]}}}",
    ),
    "then and else in one rule": (
        (
            f"tool: {{kind: noop, spec: {{policy: {{rules: [{{when: {ERROR}, then: {{do: retry, attempts: 2}}, "
            "else: {do: break}}]}}}"
        ),
        f"tool: {{kind: noop, spec: {{policy: {{{AGAIN_OR_BREAK}}}}}}}",
    ),
    "then and else in one rule of admission": (
        "spec: {policy: {admit: {rules: [{when: '{{ workload.go }}', then: {allow: true}, else: {allow: false}}]}}}, "
        + TOOL,
        f"spec: {{{ADMIT}}}, {TOOL}",
    ),
    "next as a word": (f"{TOOL}, next: other", f"{TOOL}, next: {{arcs: [{{step: other}}]}}"),
    "next as a list of words": (
        f"{TOOL}, next: [other, end]",
        f"{TOOL}, next: {{spec: {{mode: inclusive}}, arcs: [{{step: other}}, {{step: end}}]}}",
    ),
    "next as a list of steps": (
        f"{TOOL}, next: [{{step: other, when: '{{{{ workload.go }}}}', args: {{a: 1}}}}, {{step: end}}]",
        f"{TOOL}, next: {{arcs: [{{step: other, when: '{{{{ workload.go }}}}', input: {{a: 1}}}}, {{step: end}}]}}",
    ),
    "when of a step": (f"when: '{{{{ workload.go }}}}', {TOOL}", f"spec: {{{ADMIT}}}, {TOOL}"),
    "lifecycle": (f"spec: {{policy: {{lifecycle: {{timeout_s: 5}}}}}}, {TOOL}", f"spec: {{timeout: 5}}, {TOOL}"),
    "the shorter of two limits": (
        f"spec: {{policy: {{lifecycle: {{timeout_s: 9, deadline_s: 5}}}}}}, {TOOL}",
        f"spec: {{timeout: 5}}, {TOOL}",
    ),
    "spec of a loop": (
        f"loop: {{in: [1], iterator: i, spec: {{mode: parallel, max_in_flight: 3}}}}, {TOOL}",
        f"loop: {{in: [1], iterator: i, mode: parallel, max_in_flight: 3}}, {TOOL}",
    ),
    "policy of a loop": (
        f"loop: {{in: [1], iterator: i, spec: {{policy: {{exec: local, mode: parallel, max_in_flight: 3}}}}}}, {TOOL}",
        f"loop: {{in: [1], iterator: i, spec: {{mode: parallel, max_in_flight: 3}}}}, {TOOL}",
    ),
    "async": (
        f"loop: {{collection: [1], element: i, mode: async, concurrency: 3}}, {TOOL}",
        f"loop: {{in: [1], iterator: i, spec: {{mode: parallel, max_in_flight: 3}}}}, {TOOL}",
    ),
    "16 at once": (
        f"loop: {{in: [1], iterator: i, spec: {{mode: parallel}}}}, {TOOL}",
        f"loop: {{in: [1], iterator: i, spec: {{mode: parallel, max_in_flight: 16}}}}, {TOOL}",
    ),
    "a cursor is parallel": (
        f"loop: {{{CURSOR}, spec: {{mode: cursor, max_in_flight: 2}}}}, {TOOL}",
        f"loop: {{{CURSOR}, spec: {{mode: parallel, max_in_flight: 2}}}}, {TOOL}",
    ),
    "durations": (
        f"spec: {{timeout: 1.5m}}, {TOOL}",
        f"spec: {{timeout: 90}}, {TOOL}",
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_two_forms_with_the_same_meaning(name: str) -> None:
    case, other = SAME[name]
    assert graph_of(case, "workload: {go: true}\n") == graph_of(other, "workload: {go: true}\n")


FRAME = "max_rows: 5, max_seconds: 30, max_bytes: 64MiB, lease_seconds: 120, heartbeat_seconds: 30, row_concurrency: 2"


def test_a_cursor_with_its_frame_is_all_in_the_graph() -> None:
    cursor = 'cursor: {kind: postgres, auth: pg, claim: "SELECT {{ __frame_max_rows }}"}'
    frame = f"frame: {{{FRAME}, process: row, retry_mode: whole_frame, max_attempts: 3}}"
    loop = graph_of(f"loop: {{{cursor}, iterator: row, spec: {{mode: cursor, {frame}}}}}, {TOOL}")["steps"]["start"][
        "loop"
    ]
    cursor = loop["cursor"]
    assert (cursor["kind"], cursor["claim"]["auth"]["data"]) == ("postgres", "pg")
    assert cursor["claim"]["config"]["data"] == {"query": "SELECT $1", "params": ["{{ __frame_max_rows }}"]}
    sizes = ("max_rows", "lease_seconds", "heartbeat_seconds", "row_concurrency", "max_attempts")
    assert [cursor[name]["data"] for name in sizes] == [5, 120, 30, 2, 3]
    assert cursor["process"] == "row"


def test_secrets_of_the_keychain_are_all_in_the_graph() -> None:
    entry = "{name: key, kind: oauth2, endpoint: '{{ workload.url }}/token', data: {scope: a}, auto_renew: true}"
    [keychain_entry] = graph_of(TOOL, f"keychain: [{entry}]\nworkload: {{url: x}}\n")["keychain"]
    assert (keychain_entry["name"], keychain_entry["kind"]) == ("key", "oauth2")
    assert keychain_entry["config"]["data"] == {
        "endpoint": "{{ workload.url }}/token",
        "data": {"scope": "a"},
        "auto_renew": True,
    }
    assert keychain_entry["config"]["templates"] == ["/endpoint"]


WRONG = {
    "an else without a then before it": (
        f"tool: {{kind: noop, spec: {{policy: {{rules: [{{when: {ERROR}, else: {{do: break}}}}]}}}}}}",
        "NT104",
    ),
    "more than then below else": (
        "tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: break}, set: {ctx.a: 1}}}]}}}",
        "NT102",
    ),
    "a condition beside the else of an eval": (
        f"tool: {{kind: noop, eval: [{{expr: {ERROR}, do: retry, else: {{do: break}}}}]}}",
        "NT102",
    ),
    "policy that is inclusive": (
        "tool: {kind: noop, spec: {policy: {mode: inclusive, rules: [{else: {do: break}}]}}}",
        "NT105",
    ),
    "a lease of items of a list": (
        f"loop: {{in: [1], iterator: i, spec: {{frame: {{lease_seconds: 9}}}}}}, {TOOL}",
        "NT105",
    ),
    "an unknown word of a frame of a list": (
        f"loop: {{in: [1], iterator: i, frame: {{max_row: 1}}}}, {TOOL}",
        "NT102",
    ),
    "a frame that is no mapping": (f"loop: {{in: [1], iterator: i, frame: 9}}, {TOOL}", "NT103"),
    "rows that are no number": (f"loop: {{in: [1], iterator: i, frame: {{max_rows: many}}}}, {TOOL}", "NT103"),
    "seconds that are none": (f"loop: {{in: [1], iterator: i, frame: {{max_seconds: soon}}}}, {TOOL}", "NT106"),
    "an unknown word of a frame": (
        f"loop: {{{CURSOR}, frame: {{proces: row}}}}, {TOOL}",
        "NT102",
    ),
    "a collection and a cursor": (
        f"loop: {{in: [1], {CURSOR}}}, {TOOL}",
        "NT109",
    ),
    "a circuit without failures": ("tool: {kind: noop, spec: {policy: {circuit: {window: 3}}}}", "NT104"),
    "a reducer that is none": (
        f"loop: {{in: [1], iterator: i, spec: {{reduce: {{ctx.a: max}}}}}}, {TOOL}",
        "NT106",
    ),
    "a script from nowhere": ("tool: {kind: python, script: {source: {type: file}}}", "NT104"),
    "an unknown source of a script": ("tool: {kind: python, script: {uri: x, source: {type: ftp}}}", "NT106"),
    "a field of another source": ("tool: {kind: python, script: {uri: x, source: {type: file, region: eu}}}", "NT102"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_forms_are_reported(name: str) -> None:
    step, code = WRONG[name]
    diagnostics = compile_text(f"{HEAD}workflow:\n- {{step: start, {step}}}\n{OTHERS}").diagnostics
    assert code in {diagnostic.code.value for diagnostic in diagnostics}


@pytest.mark.parametrize(
    ("executor", "code", "severity"),
    [
        ("profile: cloudy", "NT106", Severity.ERROR),
        ("requires: {tools: [htpp]}", "NT501", Severity.WARNING),
        ("requires: {feature: [x]}", "NT102", Severity.ERROR),
        ("requires: {tools: http}", "NT103", Severity.ERROR),
        ("spec: {entry_step: nowhere}", "NT203", Severity.ERROR),
        ("spec: {final_step: nowhere}", "NT203", Severity.ERROR),
    ],
)
def test_the_keys_of_an_executor_are_checked(executor: str, code: str, severity: Severity) -> None:
    diagnostics = compile_text(
        f"{HEAD}executor: {{{executor}}}\nworkflow:\n- {{step: start, {TOOL}}}\n{OTHERS}"
    ).diagnostics
    assert (code, severity) in {(diagnostic.code.value, diagnostic.severity) for diagnostic in diagnostics}
