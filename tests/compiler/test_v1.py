"""The v1 front end: how the dialect is detected, and what each older form becomes."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_or_raise, compile_text
from noetl_compiler.codes import Code
from noetl_compiler.graph import Graph, Task

HEAD = "apiVersion: noetl.io/v1\nkind: Playbook\nname: x\n"


def graph_of(workflow: str, other_steps: str = "") -> Graph:
    return compile_or_raise(f"{HEAD}{other_steps}workflow:\n{workflow}")


def task_of(fields: str, other_steps: str = "") -> Task:
    return graph_of(f"  - {{step: start, {fields}}}\n", other_steps).steps["start"].tasks[0]


@pytest.mark.parametrize(
    ("workflow", "dialect"),
    [
        ("  - {step: start, type: python, code: pass}\n", "v1"),
        ("  - {step: start, call: work}\nworkbook: [{name: work, type: noop}]\n", "v1"),
        ("  - {step: start, next: end}\n", "v1"),
        ("  - {step: start, tool: noop}\n  - {step: a, tool: iterator, in: [1], task: {tool: noop}}\n", "v1"),
        ("  - {step: start, type: noop, case: [{else: {step: end}}]}\n", "v1"),
        ("  - {step: start, type: noop, next: [{when: '{{ a }}', then: b}, {else: b}]}\n  - {step: b}\n", "v1"),
        ("  - {step: start, tool: python, code: pass}\n", "legacy"),
        ("  - {step: start, tool: {kind: python, code: pass}}\n", "v10"),
    ],
)
def test_the_shape_decides_the_dialect(workflow: str, dialect: str) -> None:
    assert graph_of(workflow).source.dialect == dialect


@pytest.mark.parametrize(
    ("fields", "kind", "label"),
    [
        ("call: work", "noop", "work"),
        ("call: {name: work}", "noop", "work"),
        ("call: {type: workbook, task: work}", "noop", "work"),
        ("type: workbook, name: work", "noop", "work"),
        ("type: workbook, task: work", "noop", "work"),
        ("name: work", "noop", "work"),
        ("call: {path: a/b}", "playbook", "start"),
        ("type: playbooks, path: a/b", "playbook", "start"),
        ("tool: {type: python, code: pass}", "python", "start_task"),
        ("type: python, name: own, code: pass", "python", "own"),
        ("type: secrets, name: key, provider: gcp", "secrets", "start"),
        ("save: {storage: duckdb, table: t}", "noop", "start"),
        ("type: iterator, in: [1], iterator: n, task: work", "noop", "work"),
        ("type: iterator, in: [1], iterator: n, task: {type: http, url: u}", "http", "start"),
    ],
)
def test_every_form_of_what_a_step_does(fields: str, kind: str, label: str) -> None:
    task = task_of(fields, "workbook: [{name: work, type: noop}]\n")
    assert (task.kind, task.label) == (kind, label)


@pytest.mark.parametrize(
    ("fields", "config", "code_input"),
    [
        ("type: postgres, command: c, with: {db_host: h, x: 1}", {"command": "c", "db_host": "h"}, {"x": 1}),
        ("type: postgres, with: {command: c, user: u}", {"command": "c"}, {"user": "u"}),
        ("type: postgres, command: c, with: {query: q}", {"command": "c"}, {"query": "q"}),
        ("type: playbooks, catalog_path: a/b, with: {x: 1}", {"path": "a/b"}, {"x": 1}),
        ("type: duckdb, with: {database: d, commands: c}", {"database": "d", "commands": "c"}, {}),
        ("type: http, endpoint: u, data: {a: 1}", {"url": "u", "data": {"a": 1}}, {}),
        ("type: python, code: pass, params: {a: 1}, args: {b: 2}", {"code": "pass"}, {"a": 1, "b": 2}),
    ],
)
def test_fields_of_the_tool_are_distinguished_from_names_bound_for_it(
    fields: str, config: dict[str, object], code_input: dict[str, object]
) -> None:
    task = task_of(fields)
    assert (task.config.data, {**task.inherited_input.data, **task.input.data}) == (config, code_input)


def test_the_caller_of_a_workbook_task_may_say_how_to_connect() -> None:
    task = task_of(
        "type: workbook, name: work, with: {db_host: mine, a: 1}",
        "workbook: [{name: work, type: postgres, command: c, with: {db_host: its, b: 2}}]\n",
    )
    assert task.config.data == {"command": "c", "db_host": "mine"}
    assert (task.inherited_input.data, task.input.data) == ({"db_host": "mine", "a": 1}, {"b": 2})


def test_the_task_of_the_workbook_may_read_how_its_caller_connects() -> None:
    task = "{name: work, type: postgres, command: c, host: '{{ db_host }}'}"
    step = "{step: start, type: workbook, name: work, with: {db_host: mine}}"
    diagnostics = compile_text(f"{HEAD}workflow:\n  - {step}\nworkbook: [{task}]\n").diagnostics
    assert [diagnostic.code for diagnostic in diagnostics] == []


@pytest.mark.parametrize(
    ("fields", "auth"),
    [
        ("type: postgres, command: c, auth: local", "local"),
        ("type: postgres, command: c, auth: {pg: {type: postgres, key: local}}", {"type": "postgres", "key": "local"}),
        (
            "type: duckdb, command: c, auth: {pg: {type: postgres, key: local}}",
            {"pg": {"type": "postgres", "key": "local"}},
        ),
        ("type: http, url: u, auth: {inline: {user: u}}", {"inline": {"user": "u"}}),
        (
            "type: transfer, source: {}, target: {}, credential: a, credentials: {target: {key: b}}",
            {"credential": "a", "target": {"key": "b"}},
        ),
    ],
)
def test_credentials_are_read_in_every_shape(fields: str, auth: object) -> None:
    credential = task_of(fields).auth
    assert credential is not None
    assert credential.data == auth


def test_the_name_and_path_may_be_in_both_places() -> None:
    text = f"{HEAD}path: root\nmetadata: {{name: inner}}\nworkflow: [{{step: start, type: noop}}]\n"
    source = compile_or_raise(text).source
    assert (source.name, source.path) == ("inner", "root")


def test_an_empty_filter_is_reported_and_keeps_all() -> None:
    result = compile_text(f'{HEAD}workflow: [{{step: start, type: noop, loop: {{in: [1], filter: "{{{{}}}}"}}}}]\n')
    assert result.graph is not None
    loop = result.graph.steps["start"].loop
    assert loop is not None
    assert loop.where is None
    assert [diagnostic.code for diagnostic in result.diagnostics] == [Code.IGNORED_FIELD]


def test_case_and_next_exclude_each_other() -> None:
    result = compile_text(f"{HEAD}workflow: [{{step: start, type: noop, case: [{{else: end}}], next: end}}]\n")
    assert [diagnostic.code for diagnostic in result.diagnostics] == [Code.CONFLICTING_FIELDS]


@pytest.mark.parametrize("save", ["{data: {a: 1}}", "{storage: event_log, data: {a: 1}}", "{storage: {type: event}}"])
def test_a_task_has_its_result_in_the_event_log_anyway(save: str) -> None:
    result = compile_text(f"{HEAD}workflow: [{{step: start, type: python, code: pass, save: {save}}}]\n")
    assert result.graph is not None
    assert result.graph.steps["start"].tasks[0].sinks == ()
    assert [diagnostic.code for diagnostic in result.diagnostics] == [Code.IGNORED_FIELD]


@pytest.mark.parametrize(
    ("code", "expected"),
    [("", {"value": "{{ n }}"}), ("data: {value: 1}", {"value": 1}), ("data: {a: 1}", {"value": "{{ n }}", "a": 1})],
)
def test_code_in_an_iterator_is_given_the_item(code: str, expected: dict[str, object]) -> None:
    task = task_of(f"type: iterator, in: [1], iterator: n, task: {{type: python, code: pass, {code}}}")
    assert task.input.data == expected


def test_a_save_to_the_event_log_is_the_result_of_the_step() -> None:
    task = task_of("type: save, storage: event_log, data: {a: 1}")
    assert (task.kind, task.config.data, task.sinks) == ("noop", {"result": {"a": 1}}, ())


def test_steps_of_nested_regions_belong_to_the_innermost_loop() -> None:
    graph = graph_of("""
  - {step: outer, loop: {in: [1], iterator: a}, next: [inner, aside]}
  - {step: inner, loop: {in: [2], iterator: b}, next: deep}
  - {step: deep, type: noop, next: inner_end}
  - {step: inner_end, end_loop: inner, next: last}
  - {step: aside, type: noop}
  - {step: last, type: noop, next: outer_end}
  - {step: outer_end, end_loop: outer}
""")
    loops = {step.name: step.loop for step in graph.steps.values() if step.loop}
    assert {name: loop.region for name, loop in loops.items()} == {
        "outer": ("inner", "inner_end", "aside", "last", "outer_end/arrival"),
        "inner": ("deep", "inner_end/arrival"),
    }
    assert [arc.target for arc in graph.steps["aside"].route.arcs] == ["outer_end/arrival"]
    assert [arc.target for arc in graph.steps["outer"].route.arcs] == ["outer_end"]
    assert [arc.target for arc in graph.steps["outer_end"].route.arcs] == ["end"]


@pytest.mark.parametrize(
    "tool", ["", "call: {type: playbook, path: a}, ", "type: iterator, in: [1], task: {type: noop}, "]
)
def test_only_a_tool_of_its_own_gives_a_step_pages(tool: str) -> None:
    pages = "{continue_while: '{{ response.more }}', max_iterations: 3}"
    step = f"{{step: start, {tool}loop: {{pagination: {pages}}}}}"
    diagnostics = compile_text(f"{HEAD}workflow:\n  - {step}\n").diagnostics
    ignored_messages = [diagnostic.message for diagnostic in diagnostics if diagnostic.code is Code.IGNORED_FIELD]
    assert ignored_messages == ['"pagination" has no effect in a step without a tool of its own']


@pytest.mark.parametrize(
    ("step_fields", "yields"),
    [("result: '{{ a.b }}'", "{{ a.b }}"), ("return: '{{ a.b }}'", "{{ a.b }}"), ("return: a", "{{ a }}")],
)
def test_a_step_may_define_its_result(step_fields: str, yields: str) -> None:
    steps = graph_of(f"  - {{step: a, type: noop, next: end}}\n  - {{step: end, {step_fields}}}\n").steps
    result = steps["end"].result
    assert result is not None
    assert (result.data, list(result.templates)) == (yields, [""])


def test_an_iterator_was_first_called_a_loop() -> None:
    fields = "in: '{{ workload.items }}', iterator: n, task: {type: python, code: pass}"
    first, later = (graph_of(f"  - {{step: start, type: {kind}, {fields}}}\n") for kind in ("loop", "iterator"))
    assert first.steps["start"].loop is not None
    assert first.steps["start"].tasks[0].config == later.steps["start"].tasks[0].config


@pytest.mark.parametrize(("call", "is_refused"), [("noop", False), ("workbook, name: work", True)])
def test_missing_keys_of_a_workbook_task_are_reported_when_it_is_called(call: str, is_refused: bool) -> None:
    text = f"{HEAD}workbook: [{{name: work, type: python}}]\nworkflow:\n  - {{step: start, type: {call}}}\n"
    result = compile_text(text)
    assert Code.MISSING_FIELD in {diagnostic.code for diagnostic in result.diagnostics}
    assert (result.graph is None) == is_refused


def test_names_of_an_uncalled_workbook_task_are_not_checked() -> None:
    text = f"{HEAD}workbook: [{{name: work, type: noop, message: '{{{{ x }}}}'}}]\nworkflow:\n  - {{step: start}}\n"
    assert [diagnostic.code for diagnostic in compile_text(text).diagnostics] == [Code.UNUSED_WORKBOOK_TASK]


def test_a_sink_of_a_whole_loop_has_the_number_of_results() -> None:
    save = "{storage: postgres, auth: pg, table: t, data: {all: '{{ results }}', many: '{{ count }}'}}"
    step = f"{{step: start, type: iterator, in: [1], iterator: n, task: {{type: python, code: pass}}, save: {save}}}"
    assert compile_text(f"{HEAD}workflow:\n  - {step}\n").diagnostics == ()


@pytest.mark.parametrize(("asks", "targets"), [("{{ each_results }}", ["ctx.each_results"]), ("{{ each }}", [])])
def test_a_loop_keeps_its_results_under_their_first_name_where_one_asks(asks: str, targets: list[str]) -> None:
    graph = graph_of(f"""
  - {{step: each, type: iterator, in: [1], task: {{type: noop}}, next: [{{step: b, with: {{a: "{asks}"}}}}]}}
  - {{step: b, type: noop}}
""")
    assert [assign.target for assign in graph.steps["each"].set] == targets


@pytest.mark.parametrize(
    ("of_end", "after", "targets"),
    [
        ("{{ each_results }}", "{{ n }}", []),
        ("{{ each }}", "{{ each_results }}", ["ctx.each_results"]),
        ("{{ other_results }}", "{{ n }}", []),
    ],
)
def test_a_loop_over_steps_keeps_its_results_for_the_steps_after_it(
    of_end: str, after: str, targets: list[str]
) -> None:
    graph = graph_of(f"""
  - {{step: each, loop: {{in: [1], iterator: i}}, next: [{{step: work}}]}}
  - {{step: work, type: noop, next: [{{step: done}}]}}
  - {{step: done, end_loop: each, result: {{n: "{of_end}"}}, next: [{{step: b, with: {{a: "{after}"}}}}]}}
  - {{step: b, type: noop}}
""")
    assert [assign.target for assign in graph.steps["each"].set] == targets


@pytest.mark.parametrize(
    "fields", ["type: playbook, path: p, return: last", "call: {type: playbook, path: p, return: last}"]
)
def test_return_step_names_the_step_with_the_result(fields: str) -> None:
    assert task_of(fields).config.data == {"path": "p", "return_step": "last"}
