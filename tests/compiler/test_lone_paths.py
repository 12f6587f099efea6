"""A template that is a path and nothing else is read without Jinja: what comes of it must be the same."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_compiler.templating.budget import RenderBudget
from noetl_compiler.templating.program import PathProgram, Program, _compile, compile_template  # pyright: ignore[reportPrivateUsage] - Jinja's own way
from noetl_temporal.machine.views import result_view

SCOPE: dict[str, Any] = {
    "a": {"b": {"c": 1, "items": 2}, "n": None, "list": [1, 2], "text": "x"},
    "rows": result_view("postgres", {"rows": [{"id": 1}], "row_count": 1}),
    "n": None,
    "clock": 5,
}
SOURCES = tuple(
    """
    {{a}} {{a.b}} {{a.b.c}} {{a.b.items}} {{a.b.keys}} {{a.list}} {{a.list.append}} {{a.text.upper}} {{a.text.nope}}
    {{a.n.x}} {{n}} {{n.x}} {{nope}} {{nope.x.y}} {{a.nope}} {{a.nope.x}} {{a.__class__}} {{a.text.__class__}}
    {{rows.rows}} {{rows.count}} {{rows.command_0.rows}} {{rows.data}} {{clock.real}} {{Self}}
    {{super}} {{loop}} {{caller}}
""".split()  # noqa: SIM905 - a list of quoted braces would be far longer
)


def outcome(program: Program | PathProgram) -> tuple[str, str]:
    """The value or the failure, as text: functions and undefined values compare by identity."""
    try:
        value = program.run(SCOPE, RenderBudget())
        return type(value).__name__, repr(str(value)) if "method" not in type(value).__name__ else ""
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("source", SOURCES)
def test_a_path_gives_what_jinja_gives(source: str) -> None:
    assert outcome(compile_template(source)) == outcome(_compile(source))


@pytest.mark.parametrize("source", ["{{ a.b.c }}", "{{rows.count}}"])
def test_a_path_needs_no_jinja(source: str) -> None:
    assert isinstance(compile_template(source), PathProgram)


@pytest.mark.parametrize("source", ["{{ self }}", "{{ a.b }} ", "{{ true }}", "{{ a\n.b }}", "{{ range }}"])
def test_expressions_other_than_paths_need_jinja(source: str) -> None:
    assert isinstance(compile_template(source), Program)
