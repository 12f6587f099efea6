"""Random playbooks of the case dialect: always read to an end, always the same, and v10 can say what they come to."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl_compiler import compile_text
from noetl_compiler.emission import migrate, without_places
from noetl_compiler.graph import encode
from noetl_compiler.source import SourceFile

NAMES = st.sampled_from(["start", "a", "b", "end"])
EVENTS = ["step.enter", "call.done", "call.error", "step.exit", "loop.item", "loop.done"]
CONDITIONS = st.one_of(
    st.sampled_from(EVENTS).map(lambda event: f"{{{{ event.name == '{event}' }}}}"),
    st.sampled_from(EVENTS).map(lambda event: f"{{{{ event.name == '{event}' and response.n > ctx.n }}}}"),
    st.sampled_from(["true", "{{ error is defined }}", "{{ result.n }}", "{{ workload.n }} == 3", "else"]),
)
VALUES = st.sampled_from([1, "x", "{{ result.n }}", "{{ error.message }}", "{{ ctx.n }}", {"k": "{{ response }}"}])
ARGS = st.dictionaries(st.sampled_from(["n", "m"]), VALUES, max_size=2)
TARGETS = st.one_of(
    NAMES,
    st.lists(NAMES, min_size=1, max_size=2),
    st.builds(lambda step, args: [{"step": step, "args": args}], NAMES, ARGS),
)
ACTIONS: dict[str, st.SearchStrategy[Any]] = {
    "next": TARGETS,
    "set": ARGS | ARGS.map(lambda names: {"ctx": names}),
    "vars": ARGS,
    "result": VALUES | st.just({"from": "response.n"}),
    "fail": st.sampled_from([True, "why {{ result.n }}"]),
    "skip": st.booleans(),
    "collect": st.sampled_from([{"from": "result.n", "into": "n"}, {"strategy": "append", "path": "n", "into": "all"}]),
    "retry": st.sampled_from(
        [2, {"max_attempts": 3, "initial_delay": "2s"}, {"params": {"page": "{{ page }}"}}, {"args": {"n": 1}}]
    ),
    "call": st.sampled_from([{"step": "a", "args": {"n": 1}}, {"args": {"n": 2}}]),
    "sink": st.sampled_from([{"tool": "postgres", "table": "t"}, {"tool": {"kind": "http", "url": "u"}}]),
    "tell": st.just({"tool": {"kind": "noop", "message": "{{ result }}"}}),
}
THEN = st.fixed_dictionaries({}, optional=ACTIONS) | st.lists(st.fixed_dictionaries({}, optional=ACTIONS), max_size=3)
RULES = st.builds(lambda when, then: {"when": when, "then": then}, CONDITIONS, THEN) | st.builds(
    lambda then: {"else": then}, THEN
)
STEPS = st.fixed_dictionaries(
    {"case": st.lists(RULES, min_size=1, max_size=4)},
    optional={
        "tool": st.sampled_from([{"kind": "noop"}, {"kind": "http", "url": "u", "params": {"page": 1}}]),
        "loop": st.sampled_from(
            [{"in": [1, 2], "iterator": "n"}, {"in": "{{ workload.l }}", "iterator": "m", "mode": "parallel"}]
        ),
        "spec": st.sampled_from([{"case_mode": "inclusive"}, {"on_error": "retry", "timeout": "5m"}]),
        "next": TARGETS,
        "args": ARGS,
    },
)


def playbook_of(steps: list[dict[str, Any]]) -> str:
    named = [{"step": name, **step} for name, step in zip(["start", "a", "b", "end"], steps, strict=True)]
    document = {"metadata": {"name": "x"}, "workload": {"n": 1, "l": []}, "workflow": named}
    return yaml.safe_dump(document, sort_keys=False)


@settings(max_examples=120, deadline=None)
@given(st.lists(STEPS, min_size=4, max_size=4).map(playbook_of))
def test_every_case_is_read_and_has_a_v10_form(text: str) -> None:
    result = compile_text(text)
    if result.graph is None:
        return
    assert encode(result.graph) == encode(compile_text(text).graph or result.graph)
    migration = migrate(SourceFile("playbook.yaml", text))
    assert migration.defect == ""
    again = compile_text(migration.text or "").graph
    assert again is not None
    assert without_places(again) == without_places(result.graph)
