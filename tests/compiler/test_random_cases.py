"""Random playbooks of the case dialect: always read to an end, always the same, and v10 can say what they come to."""

from __future__ import annotations

from typing import Any, TypeAlias

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from noetl_compiler import compile_text
from noetl_compiler.graph import encode
from noetl_compiler.migration import migrate, without_spans
from noetl_compiler.source import SourceFile

Strategy: TypeAlias = st.SearchStrategy[Any]

NAMES = st.sampled_from(["start", "a", "b", "end"])
ABOUT_CALLS = st.sampled_from(
    [
        "{{ event.name == 'call.done' }}",
        "{{ event.name == 'call.error' }}",
        "{{ event.name in ['call.done', 'step.exit'] and response.n > ctx.n }}",
        "{{ event.name == 'call.done' and error is defined }}",
        "{{ result.n }}",
        "{{ workload.n }} == 3",
        "true",
        "else",
    ]
)
ABOUT_STEPS = st.sampled_from(
    [
        "{{ event.name == 'step.enter' }}",
        "{{ event.name == 'step.exit' and result.n }}",
        "{{ event.name == 'loop.done' }}",
        "{{ event.name != 'loop.item' }}",
    ]
)
VALUES: Strategy = st.sampled_from(
    [1, "x", "{{ result.n }}", "{{ error.message }}", "{{ ctx.n }}", {"k": "{{ response }}"}]
)
ARGS: Strategy = st.dictionaries(st.sampled_from(["n", "m"]), VALUES, max_size=2)
WITH_ARGS: Strategy = st.lists(st.fixed_dictionaries({"step": NAMES, "args": ARGS}), min_size=1, max_size=1)
TARGETS: Strategy = st.one_of(NAMES, st.lists(NAMES, min_size=1, max_size=2), WITH_ARGS)
LIGHT: dict[str, Strategy] = {
    "next": TARGETS,
    "set": ARGS | st.fixed_dictionaries({"ctx": ARGS}),
    "vars": ARGS,
}
HEAVY: dict[str, Strategy] = {
    **LIGHT,
    "result": VALUES | st.just({"from": "response.n"}),
    "fail": st.sampled_from([True, "why {{ result.n }}"]),
    "skip": st.booleans(),
    "collect": st.sampled_from([{"from": "result.n", "into": "n"}, {"strategy": "append", "path": "n", "into": "all"}]),
    "call": st.just({"step": "a", "args": {"n": 1}}),
    "sink": st.just({"tool": "postgres", "table": "t"}),
}
RETRY: Strategy = st.sampled_from(
    [2, {"max_attempts": 3, "delay": "2s"}, {"params": {"page": "{{ page }}"}}, {"args": {"n": 1}}]
)
TELL: Strategy = st.just({"tool": {"kind": "noop", "message": "{{ result }}"}})
AT_CALLS: Strategy = st.fixed_dictionaries({}, optional={**HEAVY, "retry": RETRY}) | st.lists(
    st.fixed_dictionaries({}, optional={**HEAVY, "tell": TELL}), max_size=3
)
RULES: Strategy = st.one_of(
    st.fixed_dictionaries({"when": ABOUT_CALLS, "then": AT_CALLS}),
    st.fixed_dictionaries({"when": ABOUT_STEPS, "then": st.fixed_dictionaries({}, optional=LIGHT)}),
    st.fixed_dictionaries({"else": st.fixed_dictionaries({}, optional=LIGHT)}),
)
LOOPS: list[dict[str, Any]] = [
    {"in": [1, 2], "iterator": "n"},
    {"in": "{{ workload.l }}", "iterator": "m", "mode": "parallel"},
]
STEPS: Strategy = st.fixed_dictionaries(
    {
        "case": st.lists(RULES, min_size=1, max_size=3),
        "tool": st.sampled_from([{"kind": "noop"}, {"kind": "http", "url": "u", "params": {"page": 1}}]),
    },
    optional={
        "loop": st.sampled_from(LOOPS),
        "spec": st.sampled_from([{"case_mode": "inclusive"}, {"on_error": "retry", "timeout": "5m"}]),
        "next": TARGETS,
        "args": ARGS,
    },
)
ROUTERS: Strategy = st.fixed_dictionaries({"case": st.lists(RULES, min_size=1, max_size=3)})


def playbook_of(steps: tuple[dict[str, Any], ...]) -> str:
    named_steps = [{"step": name, **step} for name, step in zip(["start", "a", "b", "end"], steps, strict=True)]
    document: dict[str, Any] = {"metadata": {"name": "x"}, "workload": {"n": 1, "l": []}, "workflow": named_steps}
    return yaml.safe_dump(document, sort_keys=False)


PLAYBOOKS = st.tuples(STEPS, STEPS, ROUTERS, STEPS).map(playbook_of)


NEXT_PAGES: dict[str, Any] = {
    "when": "{{ event.name == 'call.done' }}",
    "then": {"retry": {"max_attempts": 3, "delay": "2s"}},
}
"""A rule that calls again after a success: three calls are not its default, as they are for a retry."""


@settings(max_examples=60)
@given(PLAYBOOKS)
@example(playbook_of(({"tool": {"kind": "http", "url": "u"}, "case": [NEXT_PAGES]}, {}, {}, {})))
def test_every_case_is_read_and_has_a_v10_form(text: str) -> None:
    result = compile_text(text)
    if result.graph is None:
        return
    assert encode(result.graph) == encode(compile_text(text).graph or result.graph)
    migration = migrate(SourceFile("playbook.yaml", text))
    assert migration.defect == ""
    migrated_graph = compile_text(migration.text or "").graph
    assert migrated_graph is not None
    assert without_spans(migrated_graph) == without_spans(result.graph)
