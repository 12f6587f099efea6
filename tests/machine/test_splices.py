"""A template in Python code where an expression is expected is replaced by the literal of its value."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import pytest

from noetl_temporal.machine.call import ToolCall
from tests.machine.driver import run_text

V1 = (
    "apiVersion: noetl.io/v1\nkind: Playbook\nname: x\npath: x\nworkflow:\n"
    "  - step: start\n    type: python\n    code: |\n"
)
V10 = (
    "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: x}\nworkflow:\n"
    "  - step: start\n    tool:\n      kind: python\n      code: |\n"
)
VALUES: dict[str, Any] = {
    "text": 'it\'s "{{ no }}"\n',
    "number": -2,
    "none": None,
    "yes": True,
    "rows": [{"a": 1.5}, []],
}


def code_of(code: str, head: str = V10, **values: Any) -> str:
    """The code that the tool is given."""
    calls: list[ToolCall] = run_text(head + indent(code, " " * 8) + "\n", lambda call: None, {**VALUES, **values}).calls
    config: str = calls[0].config["code"]
    return config


def result_of(code: str) -> Any:
    names: dict[str, Any] = {}
    exec(code, names)
    return names["result"]


@pytest.mark.parametrize("head", [V10, V1], ids=["v10", "v1"])
@pytest.mark.parametrize("name", VALUES)
def test_a_value_of_any_type_arrives_as_it_is(name: str, head: str) -> None:
    assert result_of(code_of(f"result = {{{{ workload.{name} }}}}", head)) == VALUES[name]


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("result = {{ workload.number }} ** 2", 4),
        ("result = {{ workload.number }}.bit_length()", 2),
        ("result = [{{ workload.number }}, {{workload.yes}}]", [-2, True]),
        ("result = {{ workload.rows | length }} + 1", 3),
        ("result = {{ workload.missing | default('none') }}", "none"),
        ("result = {{ 'a' ~ workload.number }}", "a-2"),
        ("é = 'ü'; result = {{ workload.yes }}", True),
        ("result = {{ workload.rows\n  }}; line = 1 / 1", VALUES["rows"]),
    ],
)
def test_a_splice_is_one_expression(code: str, result: Any) -> None:
    assert result_of(code_of(code)) == result


@pytest.mark.parametrize(
    "code_part",
    [
        '"{{ workload.number }}"',
        "'''{{ workload.number }}'''",
        "f'{{{1}}}'",
        '"{{0}}".format(1)',
        "0  # {{ workload.number }}",
    ],
)
@pytest.mark.parametrize("head", [V10, V1], ids=["v10", "v1"])
def test_nothing_is_replaced_in_a_string_or_a_comment(code_part: str, head: str) -> None:
    assert code_of(f"b = {{{{ workload.yes }}}}\nresult = {code_part}", head) == f"b = (True)\nresult = {code_part}\n"


def test_lines_keep_their_numbers() -> None:
    code = "a = {{ workload.number\n\n}}\nresult = 1"
    assert code_of(code).splitlines()[3] == "result = 1"


def test_a_value_is_never_run_as_code() -> None:
    assert (
        result_of(code_of("result = {{ workload.text }}", text="'); raise SystemExit(1) #"))
        == "'); raise SystemExit(1) #"
    )


def test_an_undefined_name_fails_the_step_at_its_place() -> None:
    failed = run_text(f"{V10}        result = {{{{ workload.gone }}}}\n", lambda call: None).of("step.failed")[0]
    assert "gone" in str(failed.error)
    assert (failed.meta["source"]["line"], failed.meta["source"]["col"]) == (9, 18)
