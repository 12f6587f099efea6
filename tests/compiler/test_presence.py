"""An undefined name is false where a template asks whether it is there, and an error where its value is used."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_compiler.graph import Json
from noetl_compiler.templates import PredicateResult, TemplateFailure, predicate, render_text

SCOPE: dict[str, Any] = {"workload": {"n": 3}, "rows": [{"id": 1, "tag": "b"}, {"id": 2, "tag": "a"}]}

CONDITIONS: list[tuple[str, Json]] = [
    ("{{ workload.nope if workload.nope else 'x' }}", "x"),
    ("{{ nope.deep[0].er if nope.deep[0].er else 'x' }}", "x"),
    ("{{ 1 if nope and nope.x else 2 }}", 2),
    ("{{ 1 if nope or workload.n else 2 }}", 1),
    ("{{ 1 if not nope else 2 }}", 1),
    ("{{ 1 if not (workload.n and nope) else 2 }}", 1),
    ("{{ nope or 'x' }}", "x"),
    ("{{ (workload.nope or []) + [1] }}", [1]),
    ("{{ nope or workload.nope or 'x' }}", "x"),
    ("{{ nope and nope.x or 'x' }}", "x"),
    ("{{ workload.n or nope }}", 3),
    ("{% if nope.x %}a{% elif nope %}b{% else %}c{% endif %}", "c"),
    ("{% for row in rows if row.nope or row.id == 2 %}{{ row.tag }}{% endfor %}", "a"),
]
NOT_ASKED = [
    ("{{ nope if workload.n else 'x' }}", "nope"),
    ("{{ nope or workload.gone }}", "workload.gone"),
    ("{{ nope and 1 }}", "nope"),
    ("{{ not nope }}", "nope"),
    ("{{ workload.nope == 1 or 2 }}", "workload.nope"),
    ("{{ 1 if workload.nope == 1 else 2 }}", "workload.nope"),
    ("{{ 1 if nope | length else 2 }}", "nope"),
]


@pytest.mark.parametrize(("source", "expected"), CONDITIONS)
def test_an_undefined_name_is_false_where_a_template_says_what_to_use_instead(source: str, expected: Json) -> None:
    assert render_text(source, SCOPE) == expected
    assert predicate(source, SCOPE).indeterminate == ()


@pytest.mark.parametrize(("source", "name"), NOT_ASKED)
def test_an_undefined_name_is_an_error_where_its_value_is_used(source: str, name: str) -> None:
    with pytest.raises(TemplateFailure, match=f'^"{name}" is undefined$'):
        render_text(source, SCOPE)
    assert predicate(source, SCOPE) == PredicateResult(False, (name,), is_mistake=True)


@pytest.mark.parametrize(
    "source", ["{{ not error }}", "{{ workload.n == 3 and not error }}", "{{ not (not error) or not error }}"]
)
def test_a_condition_may_test_that_there_is_no_error(source: str) -> None:
    assert predicate(source, SCOPE).matched
