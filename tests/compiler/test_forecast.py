"""The forecast's arithmetic. That its numbers are true is shown in tests/shell/test_forecast.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noetl_compiler import compile_or_raise
from noetl_compiler.forecast import Forecast, Sizes, forecast
from noetl_compiler.forecasting.cost_model import LOOP_EVENTS
from noetl_compiler.graph import Json

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\n"
LOOP = """
workload: {cities: [Oslo, Rome], width: 700, tries: 5}
workflow:
  - step: fetch
    loop: {in: "{{ workload.cities }}", iterator: city, spec: {mode: parallel, max_in_flight: "{{ workload.width }}"}}
    tool:
      - name: first
        kind: noop
      - name: page
        kind: http
        url: http://x/
        spec:
          policy:
            rules:
              - when: "{{ output.status == 'error' }}"
                then: {do: retry, attempts: "{{ workload.tries }}"}
              - when: "{{ output.data.more }}"
                then: {do: jump, to: page}
"""


def forecast_of(request: Json = None, sizes: Sizes | None = None) -> Forecast:
    return forecast(compile_or_raise(HEAD + LOOP), request, sizes)


def test_a_list_in_the_workload_or_the_request_is_counted() -> None:
    assert forecast_of().steps[0].items == 2
    assert forecast_of({"cities": list("abc")}).steps[0].items == 3
    assert forecast_of({"cities": list("abc")}, Sizes(items={"fetch": 40})).steps[0].items == 40


def test_unknown_counts_are_1_and_listed_as_assumed() -> None:
    step = forecast(compile_or_raise((HEAD + LOOP).replace("workload.cities }}", "ctx.found }}"))).steps[0]
    assert step.items == 1
    assert step.assumptions == ("items unknown, counted as 1 (--items)", "calls unknown, counted as 1 (--pages)")


def test_a_jump_repeats_the_tasks_it_leads_back_over() -> None:
    assert forecast_of(sizes=Sizes(pages={"fetch": 4})).steps[0].upper.calls == 2 * (1 + 4)


def test_a_step_in_a_nested_loop_runs_for_every_pair_of_items() -> None:
    nested_loops = """apiVersion: noetl.io/v1
kind: Playbook
name: x
workflow:
  - {step: outer, loop: {in: [1, 2], iterator: n}, next: inner}
  - {step: inner, loop: {in: [1, 2, 3], iterator: m}, next: work}
  - {step: work, type: noop, next: inner_end}
  - {step: inner_end, end_loop: inner, next: outer_end}
  - {step: outer_end, end_loop: outer}
"""
    calls = {step.step: step.upper.calls for step in forecast(compile_or_raise(nested_loops)).steps}
    assert calls["work"] == 2 * 3


def test_retries_cost_actions_only() -> None:
    once, often = forecast_of({"tries": 1}).steps[0], forecast_of({"tries": 5}).steps[0]
    assert once.upper == often.upper
    assert once.upper.actions == once.actions_with_retries
    assert often.actions_with_retries - often.upper.actions == 2 * 2 * 4


def test_a_long_loop_runs_in_chunks_that_give_items_back() -> None:
    forecast_ = forecast_of(sizes=Sizes(items={"fetch": 1_000}))
    chunks, events = 4, 1_000 * 2 * 6
    assert forecast_.steps[0].upper.children == chunks * -(-events // chunks // LOOP_EVENTS)
    assert not any("continues as new" in warning for warning in forecast_.warnings)


@pytest.mark.parametrize(
    ("request_", "sizes", "says"),
    [
        ({}, Sizes(), "max_in_flight is 700, at most 500 items run at once"),
        ({}, Sizes(result_bytes={"fetch": 100_000}), "over 64 KB are stored in Postgres"),
        ({}, Sizes(result_bytes={"fetch": 3_000_000}), "a result over 2 MB fails its call"),
        (
            {"cities": ["x" * 100] * 30_000},
            Sizes(),
            "its collection has 3,090,001 bytes: over 2 MB it needs a Postgres",
        ),
        (
            {},
            Sizes(items={"fetch": 3_000}),
            "its results have 3,000,000 bytes: over 2 MB they need a Postgres",
        ),
        ({}, Sizes(items={"fetch": 200_000}), "add a frame"),
    ],
)
def test_limits_are_warned_of(request_: Json, sizes: Sizes, says: str) -> None:
    assert any(says in warning for warning in forecast_of(request_, sizes).warnings)


@pytest.mark.parametrize(("row_concurrency", "is_warned_of"), [(1, True), (8, True), (16, False), (700, False)])
def test_frames_of_one_item_are_warned_of(row_concurrency: int, is_warned_of: bool) -> None:
    """Of 500 items in flight, as many as are allowed, 62 frames process 8 each, and 31 frames 16 each."""
    frame = f'width }}}}", frame: {{row_concurrency: {row_concurrency}}}}}'
    graph = compile_or_raise((HEAD + LOOP).replace('width }}"}', frame))
    warnings = forecast(graph, {}, Sizes(items={"fetch": 40})).warnings
    assert any("each frame has one item" in warning for warning in warnings) == is_warned_of


def test_a_run_has_more_events_than_its_steps() -> None:
    forecast_ = forecast_of()
    assert forecast_.upper.events > sum(step.upper.events for step in forecast_.steps)
    assert forecast_.upper.calls == sum(step.upper.calls for step in forecast_.steps)


def test_loops_within_loops_multiply_and_each_has_workflows_of_its_own() -> None:
    text = (Path(__file__).parent / "corpus/ok/v1_regions.yaml").read_text(encoding="utf-8")
    graph = compile_or_raise(text)
    outer, inner = (step for step in graph.steps.values() if step.loop)
    assert inner.name in outer.loop.region if outer.loop else False
    forecast_ = forecast(graph, sizes=Sizes(items={outer.name: 3, inner.name: 5}))
    by_name = {step.step: step for step in forecast_.steps}
    assert inner.loop is not None
    tasks = [name for name in inner.loop.region if graph.steps[name].tasks]
    assert [by_name[name].upper.calls for name in tasks] == [15 * len(graph.steps[name].tasks) for name in tasks]
    assert (by_name[outer.name].upper.workflow_runs, by_name[inner.name].upper.workflow_runs) == (1, 3)


def test_a_history_that_temporal_would_warn_about_is_forecast() -> None:
    steps = "".join(f"  - step: s{index}\n    tool: {{kind: noop}}\n" for index in range(2_500))
    names = ", ".join(f"s{index}" for index in range(2_500))
    fan = f"workflow:\n  - step: start\n    tool: {{kind: noop}}\n    next: [{names}]\n"
    forecast_ = forecast(compile_or_raise(HEAD + fan + steps))
    assert 10_240 < forecast_.largest_history <= forecast_.upper.events
    assert any("Temporal warns at 10,240" in warning for warning in forecast_.warnings)
    assert any("may be pending at once" in warning for warning in forecast_.warnings)


CONDITIONS = {"?": "{{ x }}", "+": "{{ event.name == 'step.done' }}", "-": "{{ event.name == 'call.error' }}"}


def playbook(*lines: str) -> str:
    """``a -> b? c`` leads to the first that matches, ``a => b c`` to all; ``a!`` may be denied; ``+`` and ``-`` ask for
    success and failure.
    """
    return f"{HEAD}workflow: {json.dumps([_step(*line.split()) for line in lines])}"


def _step(name: str, arrow: str = "", *targets: str) -> dict[str, Json]:
    arcs = [
        {"step": to.rstrip("?+-")} | ({"when": CONDITIONS[to[-1]]} if to[-1] in CONDITIONS else {}) for to in targets
    ]
    deny = {"policy": {"admit": {"rules": [{"when": "{{ x }}", "then": {"allow": False}}]}}} if "!" in name else {}
    mode = {"mode": "inclusive" if arrow == "=>" else "exclusive"}
    way = {"next": {"spec": mode, "arcs": arcs}} if arcs else {}
    return {"step": name.rstrip("!"), "spec": deny, "tool": {"kind": "noop"}, **way}


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        (["a -> b? c", "b", "c"], "a"),
        (["a -> b? c", "b -> d", "c -> d", "d"], "ad"),
        (["a -> b? c?", "b -> d", "c -> d", "d"], "a"),
        (["a => b c?", "b", "c"], "ab"),
        (["a => b? c?", "b -> d", "c -> d", "d"], "a"),
        (["a -> b+ c", "b", "c"], "ab"),
        (["a -> b- c", "b", "c"], "ac"),
        (["a -> b", "b! -> c", "c -> b? d", "d"], "acd"),
    ],
)
def test_steps_behind_a_condition_may_not_run(lines: list[str], names: str) -> None:
    steps = forecast(compile_or_raise(playbook(*lines))).steps
    assert {step.step for step in steps if "may not run" not in step.assumptions} - {"end"} == set(names)


def test_a_cycle_is_counted_once_without_a_given_size() -> None:
    graph = compile_or_raise(playbook("a -> b", "b -> a? c", "c"))
    once, often = forecast(graph), forecast(graph, sizes=Sizes(pages={"b": 7}))
    assert [step.assumptions for step in once.steps][:3] == [("in a cycle, counted once (--pages)",)] * 2 + [()]
    assert [step.upper.calls for step in often.steps][:3] == [7, 7, 1]
    assert (often.lower.calls, often.upper.calls) == (3, 15)


def test_a_filter_is_applied_to_what_is_known() -> None:
    loop = "{step: a, loop: {in: '{{ workload.n }}', iterator: i, where: '{{ CONDITION }}'}, tool: {kind: noop}}"
    text = f"{HEAD}workload: {{n: [1, 2, 3, 4]}}\nworkflow:\n  - {loop}\n"
    forecast_ = forecast(compile_or_raise(text.replace("CONDITION", "i > 2")))
    unknown = forecast(compile_or_raise(text.replace("CONDITION", "i > ctx.later")))
    assert (forecast_.lower.calls, forecast_.upper.calls) == (2, 2)
    assert (unknown.lower.calls, unknown.upper.calls) == (0, 4)


def test_a_default_that_needs_a_run_is_unknown() -> None:
    text = (HEAD + LOOP).replace("[Oslo, Rome]", "'{{ env.CITIES }}'")
    assert forecast(compile_or_raise(text)).steps[0].assumptions[0].startswith("items unknown")
    assert forecast(compile_or_raise(text), {"cities": [1, 2, 3]}).steps[0].items == 3


def test_a_default_is_rendered_whatever_characters_its_name_has() -> None:
    loop = "{step: a, loop: {in: \"{{ workload['a/b'] }}\", iterator: i}, tool: {kind: noop}}"
    text = f"{HEAD}workload: {{a/b: '{{{{ payload.rows }}}}'}}\nworkflow:\n  - {loop}\n"
    assert forecast(compile_or_raise(text), {"rows": [1, 2, 3]}).steps[0].items == 3


def test_a_workload_that_is_one_template_is_not_known() -> None:
    text = (HEAD + LOOP).replace("{cities: [Oslo, Rome], width: 700, tries: 5}", '"{{ payload.all }}"')
    assert forecast(compile_or_raise(text)).steps[0].items == 1


CURSOR = """
workflow:
  - step: each
    loop:
      cursor:
        kind: postgres
        auth: pg
        claim: "UPDATE jobs SET token = {{ lease.token }} WHERE token IS NULL RETURNING id"
        ack: "UPDATE jobs SET done = true WHERE id = {{ row.id }} AND token = {{ lease.token }}"
      iterator: row
      mode: cursor
      max_in_flight: 4
    tool: {kind: noop}
"""


def test_the_claims_and_acknowledgements_of_a_cursor_are_counted() -> None:
    """Of 10 rows: each is processed and acknowledged; claims take one row each, and each claimer finds nothing once."""
    steps = forecast(compile_or_raise(HEAD + CURSOR), None, Sizes(items={"each": 10})).steps[0]
    assert (steps.items, steps.lower.calls, steps.upper.calls) == (10, 10 + 10 + 10, 10 + 10 + 10 + 4)
