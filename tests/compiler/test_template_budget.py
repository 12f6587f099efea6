"""No template works without end. A budget that fails would show as a test that never ends or takes all memory."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler.graph import Span, Value
from noetl_compiler.source import expression_ranges
from noetl_compiler.templates import TemplateFailure, predicate, project, render, render_text, template_problems
from noetl_compiler.templating.filters import (
    CHARGE_BODY,
    CHARGE_VALUE,
    CONCATENATE,
    CONTAINS,
    COUNT_ITEMS,
    FILTERS,
    TO_STRING,
)
from noetl_compiler.templating.program import compile_template


def deep(inner: Any, levels: int) -> Any:
    return [deep(inner, levels - 1)] if levels else inner


def bomb(levels: int) -> Any:
    """A scope that shares its parts; nothing should make one, and nothing should trust that."""
    inner: Any = 1
    for _ in range(levels):
        inner = [inner, inner]
    return inner


SCOPE: dict[str, Any] = {
    "big": list(range(1000)),
    "wide": [list(range(1000)), list(range(1000))],
    "text": "x" * 10_000,
    "endless": bomb(60),
    "deep": deep(list(range(1000)), 100),
}

LOOPS = "{% for a in range(1000) %}{% for b in range(1000) %}BODY{% endfor %}{% endfor %}"
TOO_MUCH = [
    "{{ 'a' * 10**9 }}",
    "{{ 10**9 * 'a' }}",
    "{{ [0] * 10**9 }}",
    "{{ (0, 1) * 10**9 }}",
    "{{ 9 ** (9 ** 9) }}",
    "{{ 2 ** -(10 ** 9) ** 99 }}",
    "{% set x = 2 ** 100 %}" + "{% set x = x * x %}" * 60 + "{{ x }}",
    "{{ '%1000000000d' | format(1) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (10**9, 1) }}",
    "{{ '%(a(b))1000000000d' % {'a(b)': 1} }}",
    "{{ '%.1000000000f' % 1 }}",
    "{{ ('%9999d' * 5000) % (big * 5) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ '{:{w}}'.format(1, w=10**9) }}",
    "{{ ('{0:9999}' * 5000).format(1) }}",
    "{{ 'x'.ljust(3 * 10**8) }}",
    "{{ 'x'.rjust(3 * 10**8) }}",
    "{{ 'x'.center(3 * 10**8) }}",
    "{{ 'x'.zfill(3 * 10**8) }}",
    "{{ 'x' | center(10**9) }}",
    "{{ 'x' | indent(10**9) }}",
    "{{ text | wordwrap(1, true, text) }}",
    "{{ text.replace('x', text) }}",
    "{{ text | replace('x', text) }}",
    "{{ text.join(big * 10) }}",
    "{{ (big * 10) | join(text) }}",
    "{{ 'x'.join(range(100000) | map('center', 1000)) }}",
    "{{ [1] | batch(10**9, 0) | list }}",
    "{{ [1] | slice(10**9) | list }}",
    "{{ 1 | round(10**9) }}",
    "{{ 1.5 | round(10**9, 'ceil') }}",
    "{{ 123 | round(-(10**9)) }}",
    "{{ [1] | tojson(indent=10**9) }}",
    "{{ range(10**9) | list }}",
    "{{ [big] * 10**6 }}",
    "{{ ([[1] * 1000] * 1000) | sum(start=[]) }}",
    "{{ range(100000) | map('center', 100000) | list | length }}",
    "{{ range(100000) | select('in', big) | list | length }}",
    "{% set x = ['a'] %}" + "{% set x = [x, x] %}" * 60 + "{{ x }}",
    "{% set x = 'a' %}" + "{% set x = {'a': x, 'b': x} %}" * 60 + "{{ x | length }}",
    "{% set x = 'a' %}" + "{% set x = dict(a=x, b=x) %}" * 60 + "{{ x | length }}",
    "{% set x = [1] %}" + "{% set x = x + x %}" * 60 + "{{ x | length }}",
    "{% set x = 'a' %}" + "{% set x = x ~ x %}" * 60 + "{{ x | length }}",
    "{% set x = 'a' %}" + "{% set x = x + x %}" * 60 + "{{ x | length }}",
    "{% set x = 'a' %}" + "{% set x = '%s%s' % (x, x) %}" * 60 + "{{ x | length }}",
    "{% set x = 'a' %}" + "{% set x = '{0}{0}'.format(x) %}" * 60 + "{{ x | length }}",
    "{% set x = 'a' %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 60 + "{{ x | length }}",
    "{% set x = 'a' %}" + "{% set x = [x, x] | join %}" * 60 + "{{ x | length }}",
    "{% set x = [1] %}" + "{% set x = x | batch(2, x) | list %}" * 60 + "{{ x | length }}",
    "{{ ('a' * 10**6) | wordwrap(1) }}",
    "{{ ('a ' * 4 * 10**6) | title }}",
    "{{ ('a ' * 4 * 10**6) | wordcount }}",
    "{{ ('é' * 4 * 10**6) | urlencode }}",
    "{{ ('a,' * 10**6).split(',') }}",
    "{{ ('ab ' * 2 * 10**6).split() }}",
    "{{ ('a\\n' * 10**6).splitlines() }}",
    "{{ ('a' * 9 * 10**6) | list | length }}",
    "{{ ('ß' * 4 * 10**6).upper() }}",
    "{{ text.encode('punycode') }}",
    "{{ ('%(a)s' * 10**6) % {'a': 1} }}",
    "{{ ('{0}' * 10**6).format(1) }}",
    "{{ range(100000) | map('string') | map('upper') | map('trim') | select | list | length }}",
    "{{ range(100000) | map('default', 1) | map('abs') | reject('odd') | sum }}",
    "{{ range(100000) | map('tojson') | join }}",
    "{{ range(100000) | map('replace', 'a', 'b') | list }}",
    "{{ range(100000) | sort | unique | list }}",
    "{{ ([{'a': 1}] * 10**5) | groupby('a') }}",
    "{{ ([{'a': 1}] * 10**5) | map(attribute='a.b.c', default=1) | list }}",
    "{% for a in range(60000) %}{% set y = (2 ** 4900) ~ '' %}{% endfor %}",
    "{% for a in range(60000) %}{% set y = (2 ** 4900) * (2 ** 4900) %}{% endfor %}",
    "{% macro m() %}{{ varargs }}{% endmacro %}{% for a in range(100000) %}{{ m(*big) }}{% endfor %}",
    "{% for a in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "{% filter replace('a', text) %}{{ text }}{{ 'a' * 10**4 }}{% endfilter %}",
    LOOPS.replace("BODY", ""),
    LOOPS.replace("BODY", "{{ loop.nextitem | default(1) }}"),
    LOOPS.replace("BODY", "{{ loop.cycle(1, 2, 3) }}"),
    "{% for a in range(100000) %}" + "z" * 10_000 + "{% endfor %}",
    "{% for a in range(100000) %}{{ -1 in big }}{% endfor %}",
    "{% for a in range(100000) %}{{ big == big[:] }}{% endfor %}",
    "{% for a in range(100000) %}{% set y = big[:] %}{% endfor %}",
    "{% for a in range(100000) %}{% set y = big | max %}{% endfor %}",
    "{% for a in range(100000) %}{% set y = text.upper() %}{% endfor %}",
    "{% for a in range(100000) %}{% set y = [big] is in [[big[:]]] %}{% endfor %}",
    "{% for a in range(100000) %}{% set y = [[big], [big[:]]] | max %}{% endfor %}",
    "{% for a in range(100000) %}{% set y = wide.index(wide[1]) %}{% endfor %}",
    "x{{ endless }}",
    "{{ endless == endless[:] }}",
    "{{ deep | tojson(indent=1000) }}",
    "{{ deep | to_json('x' * 1000) }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{% macro m() %}" + "z" * 100_000 + "{% endmacro %}{% for a in range(100000) %}{% set y = m() %}{% endfor %}",
]


@pytest.mark.parametrize("source", TOO_MUCH, ids=lambda source: source[:60])
def test_too_large_values_are_refused(source: str) -> None:
    with pytest.raises(TemplateFailure):
        render_text(source, SCOPE)
    with pytest.raises(TemplateFailure):
        predicate(source, SCOPE)


def seconds_until_refused(source: str) -> float:
    started_at = time.process_time()
    with pytest.raises(TemplateFailure):
        render_text(source, SCOPE)
    return time.process_time() - started_at


SLOW = [
    "{{ ('x' * 3000000).rfind('x' * 1000000 ~ 'y' ~ 'x' * 1000000) }}",
    "{{ ('x' * 3000000).rsplit('x' * 1000000 ~ 'y' ~ 'x' * 1000000) }}",
    "{{ ('x' * 3000000).strip('y' * 3000000 ~ 'x') }}",
    "{{ ('x' * 3000000) | trim('y' * 3000000 ~ 'x') }}",
    "{% for a in range(5000) %}{% set y = needle in hay %}{% endfor %}",
    "{% for a in range(5000) %}{% set y = needle in hay in [true] %}{% endfor %}",
    "{% for a in range(5000) %}{% set y = needle is in hay %}{% endfor %}",
    "{% for a in range(5000) %}{% set y = hay.find(needle) %}{% endfor %}",
    "{% for a in range(5000) %}{% set y = hay.split(needle) %}{% endfor %}",
    "{% for a in range(5000) %}{% set y = hay | replace(needle, '') %}{% endfor %}",
    "{{ ('[' ~ ('[],' * 1000000) ~ '[]]') | from_json | length }}",
    "{{ empty }}",
    "{{ {'a': empty} }}",
    "{{ empty | tojson }}",
]
"""All of it took more than a second, some of it hours."""

SLOW_SCOPE: dict[str, Any] = {
    "hay": "x" * 2499,
    "needle": "x" * 620 + "y" + "x" * 620,
    "empty": [[] for _ in range(400_000)],
}


@pytest.mark.parametrize("source", SLOW)
def test_no_rendering_takes_a_second(source: str) -> None:
    compile_template(source)
    started_at = time.process_time()
    with pytest.raises(TemplateFailure, match=r"the template (takes|produces|yields) more than"):
        render_text(source, SLOW_SCOPE)
    assert time.process_time() - started_at < 1


def test_values_too_large_to_pass_on_fail_the_template() -> None:
    with pytest.raises(TemplateFailure, match=r'^"empty" cannot be passed on: .* more than 8,000,000 values$'):
        project(SLOW_SCOPE, ["empty"])
    with pytest.raises(TemplateFailure, match=r'^"a\.b" cannot be passed on: .* more than 64 bits$'):
        project({"a": {"b": 2**70}}, ["a.b"])


def test_no_refusal_takes_much_longer_than_that_of_a_loop() -> None:
    """The prices of what templates do are of the same order as what it costs."""
    plain = max(seconds_until_refused(LOOPS.replace("BODY", "{{ a * b }}")) for _ in range(3))
    slow = [source for source in TOO_MUCH if seconds_until_refused(source) > 8 * plain]
    assert [source for source in slow if seconds_until_refused(source) > 8 * plain] == []


@pytest.mark.parametrize("source", [source for source in TOO_MUCH if "10**6" in source or "'a'" in source])
def test_large_results_are_refused_before_they_use_memory(source: str) -> None:
    compile_template(source)
    tracemalloc.start()
    try:
        seconds_until_refused(source)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000


TOO_DEEP = [
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ " + "-" * 5000 + "1 }}",
    "{{ " + "not " * 5000 + "1 }}",
    "{{ " + "1 + " * 5000 + "1 }}",
    "{{ " + "[" * 5000 + "]" * 5000 + " }}",
    "{{ a" + ".b" * 5000 + " }}",
    "{% if 1 %}" * 5000 + "{% endif %}" * 5000,
    "{{ 0x" + "f" * 50_000 + " }}",
    "{{ " + "9" * 50_000 + " }}",
    "{{ x }}" * 10_001,
    "{{ " + "1, " * 100_000 + " }}",
]


@pytest.mark.parametrize("source", TOO_DEEP, ids=lambda source: source[:30])
def test_templates_too_large_to_compile_are_reported_with_a_position(source: str) -> None:
    with pytest.raises(TemplateFailure):
        render_text(source, SCOPE)
    (problem,) = template_problems(source)
    assert source[problem.start :].startswith("{")


def test_results_nested_too_deeply_are_refused() -> None:
    source = "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}"
    with pytest.raises(TemplateFailure):
        render_text(source, {})


def test_a_rendering_never_uses_up_what_belongs_to_the_next() -> None:
    source = "{% for a in range(20000) %}{% set y = a %}{% endfor %}done"
    assert [render_text(source, {}) for _ in range(25)] == ["done"] * 25


@pytest.mark.parametrize(
    "source",
    [
        "{{ rows is defined }}",
        "{{ rows | length > 1 }}",
        "{{ (rows | first) == 0 }}",
        "{{ rows | default([]) }}",
        "{{ rows }}",
    ],
)
def test_predicates_about_large_data_are_within_the_budget(source: str) -> None:
    assert predicate(source, {"rows": range(50_000_000)}).matched
    assert predicate(source, {"rows": [0] * 3_000_000}).matched


def test_passing_on_a_value_does_not_raise_the_limit_for_others() -> None:
    value = Value(["{{ rows }}", "{{ [rows, rows, rows] }}"], {"/0": Span(1, 1, 1, 9), "/1": Span(1, 1, 1, 9)})
    with pytest.raises(TemplateFailure, match="more than 2,000,000"):
        render(value, {"rows": [0] * 1_000_000})


def test_large_data_can_be_passed_on() -> None:
    assert len(render_text("{{ rows }}", {"rows": [0] * 7_000_000})) == 7_000_000
    assert len(render_text("{{ rows + [0] }}", {"rows": [0] * 200_000})) == 200_001
    rows = [{"id": index, "name": "n" * 20} for index in range(12_000)]
    assert render_text("{{ rows | selectattr('id', 'ge', 10) | list | length }}", {"rows": rows}) == 11_990
    assert len(render_text("{% for row in rows %}({{ row.id }}),{% endfor %}", {"rows": rows})) > 80_000


def test_a_template_that_is_too_large_is_refused_as_fast_as_it_is_read() -> None:
    source = "{{ a }}" * 100_000
    begin = time.perf_counter()
    expression_ranges(source)
    read = time.perf_counter()
    assert "more expressions" in template_problems(source)[0].message
    assert time.perf_counter() - read < 20 * (read - begin)


@pytest.mark.parametrize("body", ["x", "{{ a * b }}", "{{ loop.index }}", "{% set c = a ~ b %}", "{{ a | string }}"])
def test_the_body_of_a_loop_costs_what_it_is_made_of(body: str) -> None:
    """Without that, loops within loops took seconds of steps that were all counted alike."""
    with pytest.raises(TemplateFailure, match="more than 2,000,000 steps"):
        render_text(LOOPS.replace("BODY", body), {})


PARTS = ["(", "[", "{", "-", "not ", "a", " b", "1", "+", "*", "~", "|d", ")", "]", "}", ",", ".c", ":", " and ", "=="]


@given(st.lists(st.sampled_from([*PARTS, " if ", " else ", "'x'", " is "]), max_size=70))
def test_a_short_expression_without_a_problem_compiles(parts: list[str]) -> None:
    source = f"{{{{ {''.join(parts)[:144]} }}}}"
    if not template_problems(source):
        compile_template(source)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"),
        ("[", "]"),
        ("-", ""),
        ("not ", ""),
        ("1+", ""),
        ("1~", ""),
        ("a(", ")"),
        ("{1:", "}"),
        ("1if 1else ", ""),
    ],
)
def test_the_deepest_short_expression_compiles(opening: str, closing: str) -> None:
    levels = (150 - 7) // len(opening + closing)
    source = f"{{{{ {opening * levels}1{closing * levels} }}}}"
    assert len(source) <= 150
    if not template_problems(source):
        compile_template(source)


@pytest.mark.parametrize("name", [TO_STRING, CONCATENATE, COUNT_ITEMS, CONTAINS, CHARGE_VALUE, CHARGE_BODY])
def test_a_template_cannot_spell_the_filters_that_charge_for_it(name: str) -> None:
    """``worked(-999_999_999)`` paid a budget back that then lasted for hours."""
    assert name in FILTERS
    assert [diagnostic.message for diagnostic in template_problems(f"{{{{ '' | {name}(-999999999) }}}}")] != []
