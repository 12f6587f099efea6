from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noetl_compiler.templates import TemplateFailure, predicate, project, read_paths, template_problems

PATHS = [
    ("no template", ()),
    ("{{ workload.api_url }}{{ endpoint }}", ("endpoint", "workload.api_url")),
    ("{{ a.b[i.j].c }}", ("a.b", "i.j")),
    ("{{ a['b'].c }}{{ a['b.c'].d }}", ("a", "a.b.c")),
    ("{{ a[0].b }}", ("a",)),
    ("{{ a[1:n] }}", ("a", "n")),
    ("{{ (a.b | first).c }}", ("a.b",)),
    ("{{ a.b.items() }}", ("a.b",)),
    ("{{ a.get('x', d.e) | default(f.g) }}", ("a", "d.e", "f.g")),
    ("{{ f(a.b, k=c.d) }}", ("a.b", "c.d", "f")),
    ("{% for x in rows %}{{ x.y }}{{ z }}{% endfor %}", ("rows", "z")),
    ("{% set x = a.b %}{{ x.c }}", ("a.b",)),
    ("{{ range(n) }}{{ dict(a=b) }}", ("b", "n")),
    ("{{ a is defined and b.c is none }}", ("a", "b.c")),
    ("{{ 'a.b' }}{# c.d #}{% raw %}{{ e.f }}{% endraw %}", ()),
    ("{{ a if b.c else d }}", ("a", "b.c", "d")),
]


@pytest.mark.parametrize(("source", "expected"), PATHS)
def test_the_paths_a_template_names(source: str, expected: tuple[str, ...]) -> None:
    assert read_paths(source) == expected


def test_bad_syntax_has_no_paths() -> None:
    with pytest.raises(TemplateFailure):
        read_paths("{{ a b }}")


SOURCES = st.sampled_from(
    [
        "{{ a.b == 1 }}",
        "{{ a.b.c }}",
        "{{ a[b] == 2 }}",
        "{{ a.b is defined }}",
        "{{ b in a }}",
        "{{ a.items() | length > b }}",
    ]
)
LEAF = st.sampled_from([0, 1, "b", "c", None])
SCOPES = st.dictionaries(
    st.sampled_from("abc"),
    LEAF | st.dictionaries(st.sampled_from("abc"), LEAF | st.dictionaries(st.sampled_from("abc"), LEAF)),
)


@given(SOURCES, SCOPES)
def test_a_predicate_decides_the_same_on_the_projection(source: str, scope: dict[str, Any]) -> None:
    """The activity has only the projection; it must decide as the machine would."""
    assert decision_of(source, project(scope, read_paths(source))) == decision_of(source, scope)


def decision_of(source: str, scope: dict[str, Any]) -> bool | str:
    try:
        return predicate(source, scope).matched
    except TemplateFailure as failure:
        return failure.message


CHECKS: list[tuple[str, list[tuple[str, str, str]]]] = [
    ("plain {{ a | default(1) }}", []),
    ("{{ a | tojsn }}", [('unknown filter "tojsn"', 'did you mean "tojson"?', "tojsn")]),
    ("x\n {{ a is defind }}", [('unknown test "defind"', 'did you mean "defined"?', "defind")]),
    ("{{ 'x | y' | x | y }}", [('unknown filter "x"', "", "x"), ('unknown filter "y"', "", "y")]),
    ("{{ a }} {{ b == }}", [("the expression is incomplete", "complete it, or remove it", "}}")]),
    ("{{ 'a' }}\n{{ a == ''b'' }}", [('expected token "}}", got "b"', "", "b")]),
    ("{{- a  b -}}", [('expected token "}}", got "b"', "", "b")]),
    ("{{ a $ b }}", [('unexpected char "$"', "write {{ name }} without $", "$")]),
    ("{% endif %}", [('encountered unknown tag "endif"', "", "{% endif %}")]),
    ("{{ env('A') }}", [('unknown function "env"', "", "env")]),
    ("{{ rang(3) }}", [('unknown function "rang"', 'did you mean "range"?', "rang")]),
    ("{{ a.itms() }}", [('unknown method "itms"', 'did you mean "items"?', "itms")]),
    ("{{ a.append(1) }}", [('unknown method "append"', "", "append")]),
    ("{{ range(a.get('n', 1)) | list }}{{ now().year }}{{ dict(x=a.b.split(',')) }}", []),
    ("{% macro m(x) %}{{ x }}{% endmacro %}{{ m(1) }}{% for i in a %}{{ loop.cycle(1, 2) }}{% endfor %}", []),
    ("{% set f = a.keys %}{{ f() }}", []),
    ("{% if a b %}{% endif %}", [('expected token "%}", got "b"', "", "{% if a b %}")]),
]


@pytest.mark.parametrize(("source", "expected"), CHECKS)
def test_problems_are_found_where_they_are(source: str, expected: list[tuple[str, str, str]]) -> None:
    problems = [
        (problem.message, problem.hint, source[problem.start : problem.end]) for problem in template_problems(source)
    ]
    assert problems == expected
    assert all(problem.start > source.find(" | y'") for problem in template_problems(source))


@pytest.mark.parametrize(
    "source", ["{{ [1] | random }}", "{{ random() }}", "{{ lipsum(n=1) }}", "{{ uuid() }}", "{{ utcnow() }}"]
)
def test_nondeterministic_functions_are_forbidden(source: str) -> None:
    (problem,) = template_problems(source)
    assert problem.forbidden
    assert problem.hint


def test_now_is_the_scopes_to_give() -> None:
    assert template_problems("{{ now() }}") == ()


@example("{{.)")
@given(st.text(alphabet="{}%#|. \nabx'\"()[]~-"))
def test_any_text_has_problems_or_none(source: str) -> None:
    for problem in template_problems(source):
        assert problem.message
        assert 0 <= problem.start <= problem.end <= len(source)
