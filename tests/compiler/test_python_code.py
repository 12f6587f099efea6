"""What the compiler says of Python code, held against what the python tool makes of the same code."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from noetl_activities.python import child as python_child
from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic
from noetl_compiler.python_code import TOOL_NAMES, gives_result, parse_code, undefined_names
from noetl_compiler.source import SourceFile

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: x}
workflow:
  - step: start
    tool:
      kind: python
"""
PYTHON = {Code.TEMPLATE_IN_CODE, Code.PYTHON_SYNTAX, Code.UNDEFINED_PYTHON_NAME, Code.NO_PYTHON_RESULT}


def findings(fields: str, head: str = HEAD) -> list[Diagnostic]:
    return [diagnostic for diagnostic in compile_text(head + fields).diagnostics if diagnostic.code in PYTHON]


def codes(fields: str, head: str = HEAD) -> list[Code]:
    return [finding.code for finding in findings(fields, head)]


def call(code: str, **arguments: Any) -> dict[str, Any]:
    return {"code": code, "input": arguments, "libs": {}, "env": {}, "context": {}}


def test_the_tool_binds_these_names_for_any_code() -> None:
    assert python_child.globals_of(call("uuid")).keys() - {"__name__"} == TOOL_NAMES


RESULTS = [
    ("result = 5", True),
    ("def main():\n    return 5", True),
    ("main = lambda: 5", True),
    ("return 5", True),
    ("if 1:\n    return 5", True),
    ("for result in [5]:\n    pass", True),
    ("def f():\n    global result\n    result = 5\nf()", True),
    ("globals()['result'] = 5", True),
    ("exec('result = 5')", True),
    ("x = 5", False),
    ("def f():\n    return 5\nf()", False),
    ("def f():\n    result = 5\nf()", False),
    ("class main:\n    pass", True),
    ("class A:\n    result = 5", False),
]


@pytest.mark.parametrize(("code", "has_one"), RESULTS)
def test_compiler_and_tool_agree_on_code_with_a_result(code: str, has_one: bool) -> None:
    tree = parse_code(code)
    assert isinstance(tree, ast.Module)
    assert gives_result(tree) is has_one
    assert (python_child.run(call(code)) is not None) is has_one


@pytest.mark.parametrize("code", ["raise ValueError(1)", "pass"])
def test_code_that_always_fails_or_does_nothing_needs_no_result(code: str) -> None:
    assert codes(f"      code: {code}\n") == []


def test_an_input_of_that_name_is_a_result() -> None:
    assert codes("      input: {result: 1}\n      code: print(result)\n") == []
    assert python_child.run(call("print(result)", result=1)) == 1


@pytest.mark.parametrize(
    "code",
    [
        "result = (1",
        "if 1\n    result = 2",
        "break",
        "return (yield) + await x",
        "def f(a, a):\n    return 1\nresult = 1",
        "return 1\nfrom os import *",
        "x = 1\n  y = 2",
    ],
)
def test_the_tool_refuses_what_is_a_syntax_error(code: str) -> None:
    assert not isinstance(parse_code(code), ast.Module | None)
    with pytest.raises(SyntaxError):
        python_child.run(call(code))


UNDEFINED_NAMES: list[tuple[str, list[str]]] = [
    ("result = missing", ["missing"]),
    ("def main():\n    return missing", ["missing"]),
    ("def f():\n    inner = 1\nresult = inner", ["inner"]),
    ("def main(a: Missing):\n    return a", []),
    ("def main(a: 'Missing'):\n    return a", []),
    ("from __future__ import annotations\ndef main(a: Missing) -> Missing:\n    return 1", []),
    ("def main():\n    a: Missing = 1\n    return a", []),
    ("try:\n    result = missing\nexcept NameError:\n    result = 1", []),
    ("result = [x for x in range(2)]", []),
    ("result = len(args) + json.loads('1') + int(context is None) + os.getpid()", []),
    ("from os.path import *\nresult = join('a', 'b')", []),
    ("globals()['late'] = 1\nresult = late", []),
    ("result = late if 'late' in locals() else 1", []),
    ("import os.path as c\nresult = c", []),
    ("match args:\n    case {'a': a, **rest}:\n        result = (a, rest)", []),
    ("result = (y := 1) + y", []),
    ("é = 'ü'; result = é + missing", ["missing"]),
]


@pytest.mark.parametrize(("code", "names"), UNDEFINED_NAMES)
def test_names_that_are_not_defined(code: str, names: list[str]) -> None:
    tree = parse_code(code)
    assert isinstance(tree, ast.Module)
    found_names = undefined_names(code, tree, frozenset())
    assert [entry.name for entry in found_names] == names
    assert [code[name.start : name.end] for name in found_names] == names


@pytest.mark.parametrize(("code", "names"), [case for case in UNDEFINED_NAMES if case[1]])
def test_the_tool_fails_for_want_of_the_name(code: str, names: list[str]) -> None:
    with pytest.raises(NameError, match=names[0]):
        python_child.run(call(code, a=1))


STYLES = {
    "literal": "      code: |\n        # a comment\n        result = missing\n",
    "literal with an indicator": "      code: |2-\n            \n        result = missing\n",
    "folded": "      code: >-\n        result =\n        missing\n",
    "double": '      code: "a = \\"\\u00e9\\"\\nresult = missing"\n',
    "single": "      code: 'a = ''x''; result = missing'\n",
    "plain": "      code: result = missing\n",
    "windows line ends": "      code: |\r\n        a = 1\r\n        result = missing\r\n",
    "flow": "      {code: 'result = missing'}\n",
    "behind wide characters": "      code: 'a = \"👩‍👧 日本\"; result = missing'\n",
    "with an anchor": "      code: &code\n        result = missing\n",
}


@pytest.mark.parametrize("style", STYLES)
def test_the_position_is_exact_in_every_style(style: str) -> None:
    head = HEAD.replace("tool:\n      kind: python\n", "tool:\n") if style == "flow" else HEAD
    text = head + STYLES[style].replace("{code", "{kind: python, code")
    (diagnostic,) = findings(text, "")
    assert diagnostic.code is Code.UNDEFINED_PYTHON_NAME
    assert SourceFile("", text).slice(diagnostic.span) == "missing"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("      code: 'result = a'\n      input: {a: 1}\n", []),
        ("      code: 'result = a'\n      args: {a: 1}\n", []),
        ("      code: 'result = a'\n      libs: {a: math}\n", []),
        ("      code: 'result = a'\n      libs: [a]\n", [Code.UNDEFINED_PYTHON_NAME]),
        ("      code: 'result = a'\n      input: '{{ workload.inputs }}'\n", []),
        ("      code: 'result = a'\n      libs: '{{ workload.libs }}'\n", []),
        ("      script: 'result = a'\n", [Code.UNDEFINED_PYTHON_NAME]),
        ("      script: 'result = {{ workload.a }} +'\n", []),
        ("      code: |\n        result = {{ workload.a }} + b\n", [Code.TEMPLATE_IN_CODE, Code.UNDEFINED_PYTHON_NAME]),
        ("      code: |\n        result = {{ a ~ b }} +\n", [Code.PYTHON_SYNTAX]),
        ("      code: |\n        {% if a %}\n        result = 1\n        {% endif %}\n", [Code.TEMPLATE_IN_CODE]),
        ("      code: |\n        result = '{{ a }}' + f'{{{args}}}'\n", []),
        ("      code: |\n        result = f'{{{==}}}'\n", [Code.PYTHON_SYNTAX]),
        ("      code: '{{ workload.code }}'\n", [Code.TEMPLATE_IN_CODE]),
        ("      code: '{{ workload.code | trim }}'\n", [Code.TEMPLATE_IN_CODE]),
        ("      code: |\n        result = {{ a ~ b }}\n", [Code.TEMPLATE_IN_CODE]),
        ("      code: |\n        result = {{1: 2} for a in args}\n", []),
    ],
)
def test_certain_mistakes_in_code_are_reported(fields: str, expected: list[Code]) -> None:
    assert codes(fields) == expected


def test_names_are_passed_by_the_route_and_by_the_call_of_a_workbook_task() -> None:
    text = """\
apiVersion: noetl.io/v1
kind: Playbook
metadata: {name: x}
workbook:
  - {name: called, tool: python, code: "result = a + b + c + d"}
  - {name: uncalled, tool: python, code: "result = nobody_knows"}
workflow:
  - step: start
    next: [{step: work, args: {a: 1}}]
  - step: work
    tool: workbook
    name: called
    args: {b: 2}
"""
    assert [finding.message.split('"')[1] for finding in findings(text, "")] == ["c", "d"]


def test_the_names_of_a_spliced_template_are_looked_at_as_anywhere() -> None:
    text = HEAD + "      code: |\n        result = {{ wrkload.a }}\n"
    diagnostics = [
        diagnostic for diagnostic in compile_text(text).diagnostics if diagnostic.code is Code.UNDEFINED_NAME
    ]
    assert [SourceFile("", text).slice(diagnostic.span) for diagnostic in diagnostics] == ["{{ wrkload.a }}"]


def test_a_call_of_a_workbook_task_has_the_splices_of_its_code() -> None:
    text = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: x}
workload: {a: 1}
workbook:
  - {name: shared, tool: {kind: python, code: "result = {{ workload.a }}"}}
workflow:
  - {step: start, tool: {kind: workbook, name: shared}}
"""
    graph = compile_text(text).graph
    assert graph is not None
    assert [(splice.start, splice.end) for splice in graph.steps["start"].tasks[0].splices] == [(9, 25)]


def test_code_that_is_rendered_as_a_whole_is_not_looked_at() -> None:
    legacy = "apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: {name: x}\nworkflow:\n"
    assert codes("  - {step: start, tool: python, code: '{{ workload.code }}'}\n", legacy) == []


def test_a_mistake_of_the_task_itself_is_the_only_finding() -> None:
    assert codes("      code: x = missing\n      codes: 1\n") == []


def test_code_too_deep_or_too_long_is_left_to_the_run() -> None:
    assert parse_code("x = " + "not " * 20_000 + "1") is None
    assert parse_code("-" * 20_000 + "1") is None
    assert parse_code("x = 1\n" * 10_000) is None


@pytest.mark.parametrize("code", [code for code, names in UNDEFINED_NAMES if not names])
def test_the_tool_finds_all_other_names(code: str) -> None:
    python_child.run(call(code))
