"""Names that nothing binds where a template reads them, beside names that something does."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from tests.compiler.marked import marked_parts, playbook_of, steps


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (playbook_of("{kind: noop, message: '{{ known }} {{ workload.known }} {{ ctx.known }}'}"), []),
        (
            playbook_of("{kind: noop, message: '{{ knwn }} {{ workload.knwn }} {{ workload[\"knwn\"].x }}'}"),
            ["knwn", "workload.knwn"],
        ),
        (playbook_of("{kind: noop, message: '{{ a | default(1) }}{{ b.c | d(1) }}{{ e if e is defined }}'}"), []),
        (playbook_of("{kind: noop, message: '{% for i in known %}{{ i }}{{ loop.index }}{% endfor %}'}"), []),
        (playbook_of("{kind: noop, message: '{% set i = 1 %}{{ i }}{{ range(3) }}{{ now() }}'}"), []),
        (playbook_of("{kind: noop, message: '{{ workload.any }}'}", head=""), []),
        (
            playbook_of("{kind: noop, message: '{{ job.uuid }}{{ execution_id }}{{ env.HOME }}{{ keychain.a.b }}'}"),
            ["keychain.a"],
        ),
        (playbook_of("{kind: noop, message: '{{ known or null }} {{ token(\"a\") }}'}"), ["token"]),
        (playbook_of("{kind: noop, message: '{{ output.data }}'}"), ["output"]),
        (playbook_of("{kind: noop, set: {ctx.a: '{{ output.data }}', iter.b: '{{ result }}'}}"), []),
        (
            playbook_of(
                "[{name: a, kind: noop}, {name: b, kind: noop, message: '{{ a }}{{ _prev }}{{ output.data }}'}]"
            ),
            [],
        ),
        (playbook_of("[{name: a, kind: noop, set: {iter.n: 1}}, {kind: noop, message: '{{ iter.n }}{{ n }}'}]"), []),
        (playbook_of("{kind: noop, input: {x: 1}, message: '{{ x }}{{ input.x }}{{ args.x }}'}"), []),
        (playbook_of("{kind: noop, message: '{{ x }}'}", "input: {x: 1}, "), []),
        (playbook_of("{kind: noop, message: '{{ x }}'}", "input: '{{ workload.known }}', "), []),
        (
            playbook_of(
                "{kind: noop, message: '{{ i }}{{ iter.i }}{{ iter.index }}'}", "loop: {in: [1], iterator: i}, "
            ),
            [],
        ),
        (playbook_of("{kind: noop, message: '{{ iter.j }}'}", "loop: {in: [1], iterator: i}, "), ["iter.j"]),
        (
            playbook_of("{kind: noop, message: '{{ iter.parent.i }}'}", "loop: {in: [1], iterator: i}, "),
            ["iter.parent"],
        ),
        (playbook_of("{kind: noop}", "loop: {in: '{{ i }}', iterator: i}, "), ["i"]),
        (playbook_of("{kind: noop}", "loop: {in: [1], iterator: i, where: '{{ i > 1 }}', order_by: '{{ i }}'}, "), []),
        (
            playbook_of("{kind: noop, message: '{{ start.data }}{{ results.start }}{{ results.strt }}'}"),
            ["results.strt"],
        ),
        (
            playbook_of("[{name: a, kind: noop}, {name: b, kind: noop, message: '{{ results.a }}{{ results.c }}'}]"),
            ["results.c"],
        ),
        (playbook_of("{kind: python, code: 'x = {{ unknown }}'}"), ["{{ unknown }}"]),
        (
            steps(
                "{step: start, tool: {kind: noop}, next: {arcs: [{step: b, args: {given: 1}}]}}",
                "{step: b, tool: {kind: noop, message: '{{ given }}'}, next: {arcs: [{step: c}]}}",
                "{step: c, tool: {kind: noop, message: '{{ given }}'}}",
            ),
            ["given"],
        ),
        (
            steps("{step: start, tool: {kind: noop}, next: {arcs: [{step: end, when: '{{ event.name == \"a\" }}'}]}}"),
            [],
        ),
        (steps("{step: start, tool: {kind: noop, message: '{{ event.name }}'}}"), ["event"]),
    ],
)
def test_names_that_nothing_binds(text: str, names: list[str]) -> None:
    assert marked_parts(text, Code.UNDEFINED_NAME) == names


def reading(name: str, *names: str) -> str:
    step_list = ", ".join(f"{{step: {step_name}}}" for step_name in names)
    return f"{{step: {name}, tool: {{kind: noop, message: '{{{{ read.data }}}}'}}, next: {{arcs: [{step_list}]}}}}"


READ = "{step: read, tool: {kind: noop}}"


@pytest.mark.parametrize(
    ("workflow", "early"),
    [
        (["{step: read, tool: {kind: noop}, next: {arcs: [{step: a}]}}", reading("a", "end")], []),
        (["{step: read, next: {arcs: [{step: b}]}}", "{step: b, next: {arcs: [{step: a}]}}", reading("a", "end")], []),
        ([reading("start", "end"), reading("end"), READ, READ], []),
        ([reading("start", "read"), READ], ["read"]),
        ([reading("start", "read"), "{step: read, tool: {kind: noop}, next: {arcs: [{step: start}]}}"], []),
        ([reading("read", "end")], ["read"]),
        (["{step: read, tool: {kind: noop}, set: {ctx.a: '{{ read.data }}'}}"], []),
        ([reading("start", "end"), reading("end"), READ], ["read"]),
        ([reading("start", "read"), "{step: read, tool: {kind: noop}, set: {ctx.read: 1}}"], []),
    ],
)
def test_results_that_are_read_too_early(workflow: list[str], early: list[str]) -> None:
    assert [mark.partition(".")[0] for mark in marked_parts(steps(*workflow), Code.EARLY_RESULT)] == early


def step_with_rule(when: str, step: str = "start", after: str = "end", head: str = "") -> str:
    """A step whose task ``fetch`` has a rule."""
    policy = (
        f"{{rules: [{{when: '{{{{ {when} }}}}', then: {{do: jump, to: fetch}}}}, {{else: {{then: {{do: break}}}}}}]}}"
    )
    tool = f"{{name: fetch, kind: http, url: u, spec: {{policy: {policy}}}}}"
    return steps(f"{{step: {step}, tool: {tool}, next: {{arcs: [{{step: {after}}}]}}}}", head=head)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (step_with_rule("fetch.body.next"), ["fetch.body.next"]),
        (step_with_rule("fetch.body.next is defined"), ["fetch.body.next"]),
        (step_with_rule("fetch is defined"), []),
        (step_with_rule("output.data.body.next"), []),
        (step_with_rule("fetch.body.next", head="workload: {fetch: 1}\n"), []),
        (step_with_rule("start.body.next"), ["start.body.next"]),
        (step_with_rule("results.start.body.next"), ["results.start.body.next"]),
        (step_with_rule("start.body.next", after="start"), []),
        (step_with_rule("fetch.body.next", step="fetch"), ["fetch.body.next"]),
        (playbook_of("{name: fetch, kind: noop, set: {ctx.a: '{{ fetch.body }}'}}"), []),
    ],
)
def test_a_rule_reads_the_outcome_and_not_the_result(text: str, places: list[str]) -> None:
    diagnostics = [diagnostic for diagnostic in compile_text(text).diagnostics if diagnostic.code is Code.EARLY_RESULT]
    assert marked_parts(text, Code.EARLY_RESULT) == places
    assert {diagnostic.hint for diagnostic in diagnostics} <= {"read the outcome of the call: output.data.body.next"}


TWO_TASKS = "{step: start, tool: [{name: a, kind: noop}, {name: b, kind: noop}], next: {arcs: [{step: c}]}}"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            steps(TWO_TASKS, "{step: c, tool: {kind: noop, message: '{{ a.x.y }}'}}"),
            'it is a task of the step "start": write start.results.a.x.y',
        ),
        (
            steps(
                TWO_TASKS.replace("{name: a, kind: noop}, ", ""), "{step: c, tool: {kind: noop, message: '{{ b.x }}'}}"
            ),
            'it is a task of the step "start": write start.x',
        ),
        (
            steps(
                TWO_TASKS.replace("tool:", "loop: {in: [1], iterator: i}, tool:"),
                "{step: c, tool: {kind: noop, message: '{{ a.x }}'}}",
            ),
            'it is a task of the loop "start", whose results are in start',
        ),
        (
            playbook_of("{kind: noop, message: '{{ city }}'}", "loop: {in: [1]}, "),
            "if it is the element of the loop, add iterator: city to the loop",
        ),
        (
            playbook_of("{kind: noop, message: '{{ city }}'}", "loop: {in: [1], iterator: town}, "),
            "if requests provide it (--set city=...), declare it under workload with its default, or null",
        ),
        (
            playbook_of("{kind: noop}", "loop: {in: '{{ city }}'}, "),
            "if requests provide it (--set city=...), declare it under workload with its default, or null",
        ),
        (
            steps(
                "{step: begin, tool: {kind: noop}, next: {arcs: [{step: c}]}}",
                "{step: c, set: {ctx.a: '{{ start.x }}'}}",
            ),
            'did you mean "begin"?',
        ),
    ],
)
def test_the_nearest_defined_name_is_proposed(text: str, hint: str) -> None:
    (diagnostic,) = [
        diagnostic for diagnostic in compile_text(text).diagnostics if diagnostic.code is Code.UNDEFINED_NAME
    ]
    assert diagnostic.hint == hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (playbook_of("{kind: noop, message: '{{ knwn }}'}"), 'did you mean "known"?'),
        (
            playbook_of("{kind: noop, message: '{{ far_away }}'}"),
            "if requests provide it (--set far_away=...), declare it under workload with its default, or null",
        ),
        (playbook_of("{kind: noop, message: '{{ item.a }}'}"), "it is defined by a loop, and this step has none"),
        (
            playbook_of("{kind: noop, message: '{{ itm }}'}", "loop: {in: [1], iterator: item}, "),
            'did you mean "item"?',
        ),
        (
            playbook_of("{kind: noop, message: '{{ status_code }}'}"),
            "it is defined after a call: read it in the task's rules, in set, or in a route",
        ),
        (
            playbook_of("{kind: noop, message: '{{ secrets.a }}'}"),
            "templates cannot read credentials: name them in the auth of the tool",
        ),
        (
            playbook_of("{kind: noop, message: '{{ iter.n }}'}"),
            "the names of an iteration are defined in the tasks of its loop",
        ),
        (playbook_of("{kind: noop, message: '{{ ctx.far_away }}'}"), "set it before it is read"),
        (playbook_of("{kind: noop, message: '{{ workload.knwon }}'}"), 'did you mean "known"?'),
        (
            steps(
                "{step: step-one, tool: {kind: noop}, next: {arcs: [{step: last}]}}",
                "{step: last, tool: {kind: noop, message: '{{ step_one }}'}}",
            ),
            'write results["step-one"] for "step-one"',
        ),
    ],
)
def test_hints_for_undefined_names(text: str, hint: str) -> None:
    (diagnostic,) = [
        diagnostic for diagnostic in compile_text(text).diagnostics if diagnostic.code is Code.UNDEFINED_NAME
    ]
    assert diagnostic.hint == hint


def test_a_templated_input_leaves_the_workload_what_it_is() -> None:
    text = playbook_of("{kind: noop, message: '{{ workload.knwn }}{{ job.title }}'}", "input: '{{ workload.known }}', ")
    assert marked_parts(text, Code.UNDEFINED_NAME) == ["workload.knwn"]


RESERVED_NAMES = ("ctx", "iter", "job", "keychain", "payload", "results", "vars", "work", "workload")


@pytest.mark.parametrize("name", RESERVED_NAMES)
@pytest.mark.parametrize("more", ["loop: {in: [{title: a}], iterator: NAME}, ", "input: {NAME: {title: a}}, "])
def test_a_playbook_may_give_a_name_of_the_engine_to_something_of_its_own(name: str, more: str) -> None:
    text = playbook_of(f"{{kind: noop, message: '{{{{ {name}.title }}}}'}}", more.replace("NAME", name))
    assert compile_text(text).diagnostics == ()


@pytest.mark.parametrize("name", [name for name in RESERVED_NAMES if name not in ("payload", "results")])
def test_the_hint_names_the_result_that_a_name_of_the_engine_hides(name: str) -> None:
    first = f"{{step: {name}, tool: {{kind: noop}}, next: {{arcs: [{{step: b}}]}}}}"
    text = steps(first, f"{{step: b, tool: {{kind: noop, message: '{{{{ {name}.title }}}}'}}}}")
    hints = [diagnostic.hint for diagnostic in compile_text(text).diagnostics if diagnostic.code is Code.UNDEFINED_NAME]
    assert hints == ([] if name in ("work", "workload") else [f"the result of the step is results.{name}"])


def test_only_the_end_of_a_loop_over_steps_reads_its_results_by_the_name_of_the_loop() -> None:
    text = steps(
        "{step: start, loop: {in: [1], iterator: i}, next: {arcs: [{step: work}]}}",
        "{step: work, tool: {kind: noop}, next: {arcs: [{step: done}]}}",
        "{step: done, spec: {end_loop: start}, result: {all: '{{ start_results }}'}, next: {arcs: [{step: after}]}}",
        "{step: after, tool: {kind: noop, message: '{{ start_results }}'}}",
    )
    assert marked_parts(text, Code.UNDEFINED_NAME) == ["start_results"]
