"""What the checks say of shapes that lie near each other: one that is wrong, its neighbour that is right."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from tests.compiler.marked import HEAD, marked_parts, playbook_of, steps


def arcs(*ways: str, name: str = "start", mode: str = "exclusive") -> str:
    flow_list = ", ".join(f"{{{way}}}" for way in ways)
    return f"{{step: {name}, tool: {{kind: noop}}, next: {{spec: {{mode: {mode}}}, arcs: [{flow_list}]}}}}"


A, B = "{step: a, tool: {kind: noop}}", "{step: b, tool: {kind: noop}}"
OK, FAILED = 'when: "{{ workload.x == 1 }}"', "when: \"{{ event.name == 'step.failed' }}\""


@pytest.mark.parametrize(
    ("start", "dead"),
    [
        (arcs("step: a", "step: b"), ["{step: b}"]),
        (arcs("step: a", "step: b", mode="inclusive"), []),
        (arcs(f"step: a, {OK}", "step: b"), []),
        (arcs("step: a", f"step: b, {FAILED}"), []),
        (arcs(f"step: a, {FAILED}", "step: b"), []),
        (arcs(f"step: a, {OK}", f"step: b, {OK}"), [f"{{step: b, {OK}}}"]),
        (arcs("step: a, when: true", f"step: b, {OK}"), [f"{{step: b, {OK}}}"]),
        ("{step: start, tool: {kind: noop}, next: [a, b]}", []),
    ],
)
def test_routes_after_one_that_always_matches(start: str, dead: list[str]) -> None:
    assert marked_parts(steps(start, A, B), Code.DEAD_ROUTE) == dead


@pytest.mark.parametrize(
    ("workflow", "first"),
    [
        ([arcs("step: a"), arcs("step: start", name="a")], ["start"]),
        ([arcs("step: start")], ["start"]),
        ([arcs("step: a"), arcs("step: b", name="a"), arcs("step: a", name="b")], ["a"]),
        ([arcs("step: a"), arcs(f"step: start, {OK}", name="a")], []),
        ([arcs("step: a"), arcs(f"step: b, {OK}", "step: start", name="a"), B], []),
        ([arcs("step: a"), arcs("step: start", f"step: b, {OK}", name="a"), B], ["start"]),
        ([arcs("step: a"), arcs("step: start", "step: b", name="a", mode="inclusive"), B], []),
        ([arcs("step: a"), arcs("step: end", name="a")], []),
        ([arcs("step: a", f"step: start, {OK}"), A], []),
    ],
)
def test_cycles_without_an_exit(workflow: list[str], first: list[str]) -> None:
    assert marked_parts(steps(*workflow), Code.ENDLESS_CYCLE) == first


def tasks_with_jump(*rules: str, before: str = "") -> str:
    policy = f"spec: {{policy: {{rules: [{', '.join(rules)}]}}}}"
    return playbook_of(f"[{{name: a, kind: noop{before}}}, {{name: b, kind: noop, {policy}}}]")


BACK = "{else: {do: jump, to: a}}"
BREAKS = 'spec: {policy: {rules: [{when: "{{ result }}", then: {do: break}}, {else: {do: continue}}]}}'


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (tasks_with_jump(BACK), 1),
        (tasks_with_jump("{else: {do: jump, to: b}}"), 1),
        (tasks_with_jump("{else: {do: jump, to: previous}}"), 1),
        (tasks_with_jump('{when: "{{ result.more }}", then: {do: jump, to: a}}'), 0),
        (tasks_with_jump('{when: "{{ result.done }}", then: {do: break}}', BACK), 0),
        (tasks_with_jump('{when: "{{ result.done }}", then: {do: continue}}', BACK), 0),
        (tasks_with_jump("{when: \"{{ output.status == 'error' }}\", then: {do: fail}}", BACK), 1),
        (tasks_with_jump("{when: \"{{ output.status == 'error' }}\", then: {do: retry}}", BACK), 1),
        (tasks_with_jump(BACK, before=f", {BREAKS}"), 0),
        (playbook_of(f"[{{name: b, kind: noop, spec: {{policy: {{rules: [{BACK}]}}}}}}, {{name: a, kind: noop}}]"), 0),
    ],
)
def test_tasks_that_jump_back_endlessly(text: str, count: int) -> None:
    assert len(marked_parts(text, Code.ENDLESS_JUMP)) == count


@pytest.mark.parametrize(
    ("rules", "dead"),
    [
        ("[{else: {do: continue}}, {when: '{{ result }}', then: {do: fail}}]", 1),
        ("[{when: '{{ result }}', then: {do: fail}}, {when: '{{ result }}', then: {do: break}}]", 1),
        ("[{when: '{{ result }}', then: {do: fail}}, {else: {do: continue}}]", 0),
        ("[{when: true, then: {do: fail}}, {else: {do: continue}}]", 1),
    ],
)
def test_rules_after_one_that_always_matches(rules: str, dead: int) -> None:
    assert (
        len(marked_parts(playbook_of(f"{{kind: noop, spec: {{policy: {{rules: {rules}}}}}}}"), Code.DEAD_RULE)) == dead
    )


@pytest.mark.parametrize(
    ("when", "is_constant"),
    [
        ("{{ workload.x }}", False),
        ("{{ workload.x == 1 }}", False),
        ("{% if workload.x %}true{% else %}false{% endif %}", False),
        ("{{ true }}", False),
        ("true", False),
        ("about {{ workload.x }}", True),
        ("not {{ workload.x }}", True),
        ("{{ 'a' }}", True),
        ("{{ 1 == 1 }}", True),
        ("{{ [] }}", True),
        ("{{ 'a' * 10**9 }}", True),
    ],
)
def test_conditions_that_decide_nothing(when: str, is_constant: bool) -> None:
    text = steps(arcs(f'step: a, when: "{when}"'), A, head="workload: {x: 1}\n")
    assert len(marked_parts(text, Code.CONSTANT_CONDITION)) == is_constant


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("do: retry, attempts: 1000", 0),
        ("do: retry, attempts: 1500", 1),
        (f"do: retry, attempts: '{'9' * 400}'", 1),
        ("do: retry, attempts: '{{ workload.x }}'", 0),
    ],
)
def test_a_retry_with_more_attempts_than_the_limit(rule: str, expected: int) -> None:
    policy = f"{{rules: [{{when: \"{{{{ output.status == 'error' }}}}\", then: {{{rule}}}}}]}}"
    text = playbook_of(f"{{kind: noop, spec: {{policy: {policy}}}}}", "")
    assert [
        diagnostic.message for diagnostic in compile_text(text).diagnostics if diagnostic.code is Code.WRONG_VALUE
    ] == ['task "start_task" has more attempts than the limit of 1,000'] * expected


@pytest.mark.parametrize("word", ["deploy", "'deploy'"])
def test_a_comparison_outside_of_the_braces_is_one(word: str) -> None:
    text = steps(arcs(f'step: a, when: "{{{{ workload.x }}}} == {word}"'), A, head="workload: {x: 1}\n")
    result = compile_text(text)
    assert [diagnostic.code for diagnostic in result.diagnostics] == [Code.DEPRECATED_FORM]
    assert result.graph is not None
    when = result.graph.steps["start"].route.arcs[0].when
    assert when is not None
    assert when.source == "{{ (workload.x) | string == 'deploy' }}"


CALLED_TASK = "workbook: [{name: w, tool: {kind: noop, set: {ctx.a: 1}}}]\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (playbook_of("{kind: noop, set: {ctx.a: 1}}", "loop: {in: [1], mode: parallel}, "), 1),
        (playbook_of("{kind: noop, set: {ctx.a: 1}}", "loop: {in: [1], mode: async}, "), 1),
        (playbook_of("{kind: noop, set: {ctx.a: 1}}", "loop: {in: [1]}, "), 0),
        (playbook_of("{kind: noop, set: {a: 1}}", "loop: {in: [1], mode: parallel}, "), 0),
        (playbook_of("{kind: noop}", "set: {ctx.a: 1}, loop: {in: [1], mode: parallel}, "), 0),
        (playbook_of("{kind: workbook, name: w}", "loop: {in: [1], mode: parallel}, ", head=CALLED_TASK), 1),
        (playbook_of("{kind: workbook, name: w}", head=CALLED_TASK), 0),
    ],
)
def test_names_that_parallel_iterations_set(text: str, count: int) -> None:
    assert len(marked_parts(text, Code.PARALLEL_SET)) == count


def test_a_task_of_the_workbook_jumps_among_those_of_its_caller() -> None:
    policy = "spec: {policy: {rules: [{when: '{{ result }}', then: {do: jump, to: a}}, {else: {do: fail}}]}}"
    head = f"workbook: [{{name: w, tool: {{kind: noop, {policy}}}}}]\n"
    assert (
        marked_parts(playbook_of("[{name: a, kind: noop}, {kind: workbook, name: w}]", head=head), Code.UNKNOWN_LABEL)
        == []
    )
    diagnostics = compile_text(playbook_of("[{name: b, kind: noop}, {kind: workbook, name: w}]", head=head)).diagnostics
    assert [problem.message for problem in diagnostics] == ['step "start" has no task "a" to jump to']


def test_an_unused_task_is_reported_only_when_all_calls_lead_somewhere() -> None:
    head = "workbook: [{name: used, tool: {kind: noop}}, {name: free, tool: {kind: noop}}]\n"
    assert marked_parts(playbook_of("{kind: workbook, name: used}", head=head), Code.UNUSED_WORKBOOK_TASK) == ["free"]
    assert marked_parts(playbook_of("{kind: workbook, name: usd}", head=head), Code.UNUSED_WORKBOOK_TASK) == []


def test_a_name_of_another_dialect_is_reported_once() -> None:
    text = playbook_of("{kind: noop, message: '{{ vars.a }}{{ vars.b }}'}", "set: {ctx.a: 1, ctx.b: 2}, ")
    assert marked_parts(text, Code.FOREIGN_NAME) == ["vars"]
    legacy = HEAD.replace("v2", "v1") + "workflow:\n  - {step: start, tool: noop, message: '{{ outcome.data }}'}\n"
    assert marked_parts(legacy, Code.FOREIGN_NAME) == ["outcome"]


@pytest.mark.parametrize(
    ("head", "more"), [("vars: {b: 1}\n", ""), ("", "vars: {b: '{{ output.b }}'}, "), ("", "set_vars: {b: 1}, ")]
)
def test_vars_are_visible_if_the_playbook_sets_some(head: str, more: str) -> None:
    assert marked_parts(playbook_of("{kind: noop, message: '{{ vars.b }}'}", more, head), Code.FOREIGN_NAME) == []


@pytest.mark.parametrize(
    ("workflow", "unreachable"),
    [
        ([arcs("step: a"), A, B], ["b"]),
        ([arcs("step: a", "step: b", mode="inclusive"), A, B], []),
        ([arcs("step: a"), arcs("step: b", name="a"), A, B], []),
        ([arcs("step: c"), A, B], []),
        ([arcs("step: a"), A, arcs("step: c", name="b"), arcs("step: b", name="c")], ["b", "c"]),
        ([arcs("step: a"), A, "{step: End, tool: {kind: noop}}"], []),
    ],
)
def test_steps_to_which_no_route_leads(workflow: list[str], unreachable: list[str]) -> None:
    assert marked_parts(steps(*workflow), Code.UNREACHABLE_STEP) == unreachable


def region(mode: str, *, work: str = "set: {ctx.a: 1}, ") -> str:
    """A loop over steps: ``work`` between the loop and its end."""
    return steps(
        f"{{step: start, loop: {{in: [1], iterator: i, spec: {{mode: {mode}}}}}, next: {{arcs: [{{step: work}}]}}}}",
        f"{{step: work, {work}tool: {{kind: noop, message: '{{{{ i }}}}'}}, next: {{arcs: [{{step: done}}]}}}}",
        "{step: done, spec: {end_loop: start, returns: {all: '{{ start_results }}'}}, set: {ctx.b: '{{ i_gone }}'}}",
    )


def test_the_steps_of_a_parallel_loop_set_names_in_parallel() -> None:
    assert marked_parts(region("parallel"), Code.PARALLEL_SET) == ["ctx.a: 1"]
    assert marked_parts(region("sequential"), Code.PARALLEL_SET) == []
    assert marked_parts(region("parallel", work="set: {iter.a: 1}, "), Code.PARALLEL_SET) == []


def test_the_steps_of_a_loop_know_its_element_and_its_end_the_results() -> None:
    assert marked_parts(region("sequential"), Code.UNDEFINED_NAME) == ["i_gone"]


@pytest.mark.parametrize(("tool", "expected"), [("kind: http, url: u", True), ("kind: noop", False)])
def test_tasks_that_cannot_fail_need_no_rule_for_errors(tool: str, expected: bool) -> None:
    text = playbook_of(
        f"{{{tool}, spec: {{policy: {{rules: [{{when: '{{{{ workload.known }}}}', then: {{do: break}}}}]}}}}}}"
    )
    assert bool(marked_parts(text, Code.ERRORS_UNMATCHED)) == expected


@pytest.mark.parametrize("when", ["true", "'{{ true }}'", "'{{ 1 == 1 }}'"])
def test_a_rule_that_always_matches_covers_errors(when: str) -> None:
    text = playbook_of(
        f"{{kind: http, url: u, spec: {{policy: {{rules: [{{when: {when}, then: {{do: continue}}}}]}}}}}}"
    )
    assert marked_parts(text, Code.ERRORS_UNMATCHED) == []


@pytest.mark.parametrize(
    ("sink", "is_warned"),
    [
        ("kind: postgres, auth: pg", True),
        ("kind: duckdb, data: {n: 1}", True),
        ("kind: postgres, auth: pg, table: t", False),
        ("kind: postgres, auth: pg, statement: select 1", False),
        ("kind: http, url: 'http://x'", False),
    ],
)
def test_sinks_into_a_database_without_a_table(sink: str, is_warned: bool) -> None:
    text = playbook_of(f"{{kind: noop, sink: {{tool: {{{sink}}}}}}}")
    assert len(marked_parts(text, Code.MISSING_FIELD)) == is_warned


@pytest.mark.parametrize(
    ("collection", "is_reported"),
    [
        ("workload.text", True),
        ("text", True),
        ("workload.number", True),
        ("workload.below.flag", True),
        ("workload.list", False),
        ("workload.empty", False),
        ("workload.zero", False),
        ("workload.mapping", False),
        ("workload.template", False),
        ("workload.unknown", False),
        ("a", False),
    ],
)
def test_a_loop_over_a_default_that_is_not_a_list(collection: str, *, is_reported: bool) -> None:
    head = (
        "workload: {text: b, number: 3, below: {flag: true}, list: [1], empty: '', zero: 0, mapping: {}, "
        "template: '{{ text }}', a: text}\n"
    )
    loop = f'{{step: loop, loop: {{in: "{{{{ {collection} }}}}", iterator: i}}, tool: {{kind: noop}}}}'
    expected = [f"{{{{ {collection} }}}}"] if is_reported else []
    assert (
        marked_parts(steps("{step: a, tool: {kind: noop}, next: loop}", loop, head=head), Code.LOOP_OVER_TEXT)
        == expected
    )


@pytest.mark.parametrize(
    ("playbook", "key"),
    [
        (playbook_of("{kind: noop, spec: {polcy: {}}}"), "polcy"),
        (steps("{step: start, tool: noop, spec: {polcy: {}}, next: end}", "{step: end}"), "polcy"),
        (steps("{step: start, type: http, url: x, spec: {polcy: {}}, next: end}", "{step: end}"), "polcy"),
        (
            playbook_of("{kind: workbook, name: t}", head="workbook: [{name: t, tool: noop, spec: {polcy: {}}}]\n"),
            "polcy",
        ),
    ],
)
def test_an_unknown_key_in_the_spec_of_a_task(playbook: str, key: str) -> None:
    assert marked_parts(playbook, Code.UNKNOWN_KEY) == [key]
    hints = [
        diagnostic.hint for diagnostic in compile_text(playbook).diagnostics if diagnostic.code is Code.UNKNOWN_KEY
    ]
    assert hints == ['did you mean "policy"?']


def test_only_routes_that_the_author_wrote_are_unreachable() -> None:
    """A rule without a target leads to the end, unless one about the exit of the step always matches first."""
    done = "{when: \"{{ event.name == 'call.done' }}\", then: {set: {x: 1}}}"
    over = "{when: \"{{ event.name == 'step.exit' }}\", then: {next: [{step: a}]}}"
    text = steps(f"{{step: start, tool: {{kind: noop}}, case: [{done}, {over}]}}", "{step: a}", "{step: end}")
    assert marked_parts(text, Code.DEAD_ROUTE) == []


def test_a_sink_may_say_that_it_stores_batches_and_how_large() -> None:
    sink = "sink: {tool: postgres, table: t, auth: pg, batch: true, chunk_size: 10}"
    text = steps(f"{{step: start, tool: http, url: x, {sink}, next: end}}", "{step: end}")
    result = compile_text(text)
    assert [(diagnostic.code, diagnostic.message) for diagnostic in result.diagnostics] == [
        (Code.IGNORED_FIELD, '"batch: true" has no effect in a sink')
    ]
    assert result.graph is not None
    assert result.graph.steps["start"].tasks[0].sinks[0].config.data == {"table": "t", "batch": 10}


@pytest.mark.parametrize(
    ("tool", "keys"),
    [
        ('{kind: noop, result: {"{{ known }}": 1}}', ["{{ known }}"]),
        ('{kind: noop, result: [{"a {% if 1 %}b{% endif %}": {"x-{{ 1 +* }}" : 1}}]}', ["a {% if", "x-{{ 1"]),
        ('{kind: noop, result: "{{ {known: 1} }}"}', []),
        ('{kind: http, url: "{{ known }}:8080/{{ known }}"}', []),
        ("{kind: python, code: \"result = {'{{ known }}': 1}\"}", []),
    ],
)
def test_templates_in_keys(tool: str, keys: list[str]) -> None:
    marks = marked_parts(playbook_of(tool), Code.TEMPLATE_KEY)
    assert [key.strip('"').startswith(expected) for key, expected in zip(marks, keys, strict=True)] == [True] * len(
        keys
    )


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("next: [{step: end}]", Code.DEPRECATED_FORM),
        ("next: {arcs: [{step: end}]}", Code.UNKNOWN_KEY),
    ],
)
def test_a_loop_inside_of_a_tool_is_an_older_form(step: str, code: Code) -> None:
    loop = "loop: {in: [1], iterator: i}"
    text = steps(f"{{step: start, tool: {{kind: noop, {loop}}}, {step}}}", "{step: end, tool: {kind: noop}}")
    [diagnostic] = compile_text(text).diagnostics
    assert diagnostic.code is code
    assert diagnostic.hint in ("move it beside the tool", 'write it in the step, beside "tool": loop: ...')


def test_a_comment_without_an_end_is_marked() -> None:
    assert marked_parts(playbook_of('{kind: noop, result: "{{ known }} {# a #} {# b"}'), Code.TEMPLATE_SYNTAX) == [
        "{# b"
    ]
