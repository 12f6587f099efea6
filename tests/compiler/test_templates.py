from __future__ import annotations

import datetime
import decimal
import json
import timeit
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from noetl_compiler.graph import Json, Span, Value
from noetl_compiler.templates import (
    Absent,
    PredicateResult,
    TemplateFailure,
    predicate,
    project,
    render,
    render_text,
    template_problems,
)


class View(Mapping[str, Any]):
    """A view as the machine makes them: stored data, read through a second name."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values["data"] if name == "body" else self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def materialise(self) -> Json:
        return {**self._values, "body": self._values["data"]}


SCOPE: dict[str, Any] = {
    "workload": {"api_url": "http://x", "items": [1, 2], "n": 3, "deep": {"a b": 1, "_id": 7}},
    "page": View({"status_code": 200, "data": {"rows": [1, 2]}}),
    "rows": [{"id": 1, "tag": "b"}, {"id": 2, "tag": "a"}],
    "quote": "it's <b>",
    "now": lambda: datetime.datetime(2026, 1, 31, 10, 0, tzinfo=datetime.UTC),
}

VALUES: list[tuple[str, Json]] = [
    ("plain", "plain"),
    ("{ not a template }", "{ not a template }"),
    ("{{ workload.n }}", 3),
    ("  {{ workload.n }}\n", 3),
    ("{{ workload.n }}.", "3."),
    ("{{ workload.n }}{{ workload.n }}", "33"),
    ("{{ workload.items }}", [1, 2]),
    ("{{ workload.items[-1] }}", 2),
    ("{{ workload.items | length }}", 2),
    ("{{ workload.deep['a b'] }}", 1),
    ("{{ workload.deep._id }}", 7),
    ("{{ workload.deep.keys() | list }}", ["a b", "_id"]),
    ("{{ workload.deep.get('x', 5) }}", 5),
    ("{{ none }}", None),
    ("x{{ none }}{{ true }}", "xNoneTrue"),
    ("{{ 'x' if false }}", None),
    ("a{{ 'x' if false }}b", "ab"),
    ("{{ (1, 2) }}", [1, 2]),
    ("{{ range(3) }}", [0, 1, 2]),
    ("x {{ range(3) }}", "x [0, 1, 2]"),
    ("{{ rows | map(attribute='id') }}", [1, 2]),
    ("ids {{ rows | map(attribute='id') }}", "ids [1, 2]"),
    ("{{ rows | map(attribute='tag') | join(',') }}", "b,a"),
    ("{{ rows | sum(attribute='id') }}", 3),
    ("{{ rows | selectattr('id', 'gt', 1) | list }}", [{"id": 2, "tag": "a"}]),
    ("{{ rows | sort(attribute='tag') | first }}", {"id": 2, "tag": "a"}),
    ("{{ rows | groupby('tag') }}", [["a", [{"id": 2, "tag": "a"}]], ["b", [{"id": 1, "tag": "b"}]]]),
    ("{{ quote | tojson }}", '"it\\u0027s \\u003cb\\u003e"'),
    ("{{ quote | to_json }}", '"it\'s <b>"'),
    ("{{ {'b': 1, 'a': [none]} | tojson }}", '{"a": [null], "b": 1}'),
    ("{{ '{\"a\": 1}' | from_json }}", {"a": 1}),
    ("{{ 'é' | b64encode }}", "w6k="),
    ("{{ 'w6k=' | b64decode }}", "é"),
    ("{{ quote | e }}", "it&#39;s &lt;b&gt;"),
    ('{{ quote | replace("\'", "\'\'") }}', "it''s <b>"),
    ("{{ '7' | int + 1 }}", 8),
    ("{{ 'x' | int(5) }}", 5),
    ("{{ 2.6 | round | int }}", 3),
    ("{{ 'a-b'.split('-') }}", ["a", "b"]),
    ("{{ '-'.join(['a', 1]) }}", "a-1"),
    ("{{ '%05.1f|%s' | format(2, [1]) }}", "002.0|[1]"),
    ("{{ '%-3d|' % 7 }}", "7  |"),
    ("{{ '{:>3}|{a[x]}'.format(7, a={'x': 1}) }}", "  7|1"),
    ("{{ '{x!r}'.format_map({'x': 'y'}) }}", "'y'"),
    ("{{ nope | default('x') }}", "x"),
    ("{{ nope.deeper['than'].that | default('x') }}", "x"),
    ("{{ nope.deeper is defined }}", False),
    ("{{ workload.items is defined and nope is undefined }}", True),
    ("{{ page.body.rows[1] }}", 2),
    ("{{ page }}", {"status_code": 200, "data": {"rows": [1, 2]}, "body": {"rows": [1, 2]}}),
    ("{{ [page.data] }}", [{"rows": [1, 2]}]),
    ("{{ now().strftime('%Y') }}", "2026"),
    ("{{ null }}", None),
    ("{{ now() }}", "2026-01-31T10:00:00+00:00"),
    ("{{ [] ~ 'x' ~ 1 }}", "[]x1"),
    ("{% for row in rows %}{{ loop.index }}/{{ loop.length }}{{ row.tag }} {% endfor %}", "1/2b 2/2a "),
    ("{% for k, v in workload.deep.items() %}{{ k }}={{ v }};{% endfor %}", "a b=1;_id=7;"),
    ("{% for x in [1, [2]] recursive %}{{ x if x is number else loop(x) }}{% endfor %}", "12"),
    ("{% macro bold(x) %}<{{ x }}>{% endmacro %}{{ bold(1) }}{{ bold(2) }}", "<1><2>"),
    ("{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "3"),
    ("{% set x %}a{{ 1 }}{% endset %}{{ x }}{{ x }}", "a1a1"),
    ("{# note #}x{% raw %}{{ y }}{% endraw %}\n", "x{{ y }}\n"),
]


@pytest.mark.parametrize(("source", "expected"), VALUES)
def test_a_template_gives_a_value(source: str, expected: Json) -> None:
    result = render_text(source, SCOPE)
    assert result == expected
    assert type(result) is type(expected)


FAILURES = [
    ("{{ nope }}", '"nope" is undefined', "nope"),
    ("{{ workload.nope.deeper }}", '"workload.nope" is undefined', "workload.nope"),
    ("{{ workload.api_ur }}", '"workload.api_ur" is undefined: did you mean "api_url"?', "workload.api_ur"),
    (
        "{{ workload.deep.a_b }}",
        '"workload.deep.a_b" is undefined: write workload.deep["a b"] for "a b"',
        "workload.deep.a_b",
    ),
    ("{{ rows[5].id }}", '"5" is undefined', "5"),
    ("{{ none.x }}", '"x" is undefined', "x"),
    ("a\n\n{{ nope }}", '"nope" is undefined (line 3 of the text)', "nope"),
    ("x{{ nope }}", '"nope" is undefined', "nope"),
    ("{{ [nope] }}", '"nope" is undefined', "nope"),
    ("{{ nope + 1 }}", '"nope" is undefined', "nope"),
    ("{% for x in nope %}{% endfor %}", '"nope" is undefined', "nope"),
    ("{{ nope() }}", '"nope" is undefined', "nope"),
    ("{{ a b }}", "not a valid template: expected token 'end of print statement', got 'b'", None),
    ("{{ 1 | nope }}", "not a valid template: No filter named 'nope'.", None),
    ("{% include 'x' %}", "not a valid template: a playbook's template cannot use other templates or blocks", None),
    ("{{ 1 / 0 }}", "the template fails: ZeroDivisionError: division by zero", None),
    ("{{ 10 ** 30 }}", "the template yields a number of more than 64 bits", None),
    ("{{ {'a': [10 ** 30]} }}", "the template yields a number of more than 64 bits", None),
    ("{{ range }}", "the template yields a function, which is not data", None),
    ("x{{ rows.index }}", "the template yields a builtin_function_or_method, which is not data", None),
    ("{{ '%s' % range }}", "the template yields a function, which is not data", None),
]


@pytest.mark.parametrize(("source", "message", "name"), FAILURES)
def test_a_failure_has_a_message_and_a_place(source: str, message: str, name: str | None) -> None:
    with pytest.raises(TemplateFailure) as failure:
        render_text(source, SCOPE)
    assert (failure.value.message, failure.value.name, failure.value.span) == (message, name, None)


ESCAPES = [
    "{{ ''.__class__.__mro__ }}",
    "{{ ''['__class__'] }}",
    "{{ rows.__class__ }}",
    "{{ rows | attr('__class__') }}",
    "{{ rows | map(attribute='__class__') | list }}",
    "{{ workload.__init__ }}",
    "{{ page.materialise }}",
    "{{ page._stored }}",
    "{{ dict.__subclasses__() }}",
    "{{ dict.mro() }}",
    "{{ rows.append(1) }}",
    "{{ workload.update({}) }}",
    "{{ workload.deep.pop('a b') }}",
    "{{ '{0.__class__}'.format(1) }}",
    "{{ '{a.__class__}'.format_map({'a': 1}) }}",
    "{{ '%(a)s' % range.__globals__ }}",
    "{{ range.__globals__ }}",
    "{{ namespace.__init__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ self }}",
    "{{ now.__code__ }}",
    "{{ now().now() }}",
    "{{ now().astimezone() }}",
    "{{ (1).to_bytes(9, 'big') }}",
    "{{ loop }}",
    "{{ lipsum() }}",
    "{{ '\\ud800' }}",
    "{{ ['\\ud800'] }}",
    "{{ ['\\ud800' ~ 1] }}",
    "{{ [99999999999999999999] }}",
    "{{ cycler.__init__ }}",
    "{% for x in rows %}{{ loop.__class__ }}{% endfor %}",
    "{% macro m() %}{% endmacro %}{{ m.__call__ }}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_no_attack_escapes_the_sandbox(source: str) -> None:
    with pytest.raises(TemplateFailure):
        render_text(source, SCOPE)


def test_rendering_leaves_the_scope_as_it_was() -> None:
    scope = {"rows": [{"id": 1}], "d": {"a": 1}}
    before = json.dumps(scope)
    result = render_text("{{ {'rows': rows, 'more': rows + [1], 'd': d} }}", scope)
    result["rows"].append(2)
    result["d"]["a"] = 2
    assert json.dumps(scope) == before


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime.date(2026, 1, 31), "2026-01-31"),
        (datetime.time(10, 0), "10:00:00"),
        (datetime.timedelta(minutes=1), 60.0),
        (decimal.Decimal("1.5"), 1.5),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"\xc3\xa9", "é"),
        ({3, 1}, [1, 3]),
        ((1, (2,)), [1, [2]]),
        ({1: {None: 2}}, {"1": {"None": 2}}),
        (View({"data": View({"data": 1})}), {"data": {"data": 1, "body": 1}, "body": {"data": 1, "body": 1}}),
    ],
)
def test_only_json_leaves_a_rendering(value: Any, expected: Json) -> None:
    assert render_text("{{ value }}", {"value": value}) == expected
    assert render_text("{{ [value] }}", {"value": value}) == [expected]


SPAN = Span(3, 5, 3, 15)


def test_a_value_is_rendered_at_its_pointers_only() -> None:
    data = {"url": "{{ n }}", "code": "{{ n }}", "list": ["x", {"a/b~c": "v{{ n }}"}], "same": {"k": [1]}}
    value = Value(data, {"/url": SPAN, "/list/1/a~1b~0c": SPAN})
    before = json.dumps(data)
    assert render(value, {"n": 1}) == {
        "url": 1,
        "code": "{{ n }}",
        "list": ["x", {"a/b~c": "v1"}],
        "same": {"k": [1]},
    }
    assert json.dumps(data) == before


def test_a_value_that_is_one_template_or_none() -> None:
    assert render(Value("{{ n }}", {"": SPAN}), {"n": [1]}) == [1]
    assert render(Value({"a": "{{ n }}"}), {}) == {"a": "{{ n }}"}


def test_rendered_text_is_not_rendered_again() -> None:
    scope = {"n": "{{ secret }}", "secret": "no"}
    assert render(Value(["{{ n }}", "x{{ n }}"], {"/0": SPAN, "/1": SPAN}), scope) == ["{{ secret }}", "x{{ secret }}"]


def test_a_failure_in_a_value_has_its_span() -> None:
    with pytest.raises(TemplateFailure) as failure:
        render(Value({"a": "{{ nope }}"}, {"/a": SPAN}), {})
    assert (failure.value.span, failure.value.name) == (SPAN, "nope")


VERDICTS = [
    ("{{ workload.n == 3 }}", PredicateResult(True)),
    ("{{ workload.n > 3 }}", PredicateResult(False)),
    ("{{ workload.n }}", PredicateResult(True)),
    ("{{ workload.items }}", PredicateResult(True)),
    ("{{ none }}", PredicateResult(False)),
    ("{{ [] }}", PredicateResult(False)),
    ("{{ 0 }}", PredicateResult(False)),
    ("{{ page }}", PredicateResult(True)),
    ("{{ 'yes' }}", PredicateResult(True)),
    ("{{ 'anything' }}", PredicateResult(True)),
    ("{{ ' False ' }}", PredicateResult(False)),
    ("{{ 'none' }}{{ '' }}", PredicateResult(False)),
    ("true", PredicateResult(True)),
    ("No", PredicateResult(False)),
    ("null", PredicateResult(False)),
    ("", PredicateResult(False)),
    ("{% if workload.n %}1{% endif %}", PredicateResult(True)),
    ("{{ nope }}", PredicateResult(False, ("nope",), is_mistake=True)),
    ("{{ nope is defined }}", PredicateResult(False)),
    ("{{ nope is not defined }}", PredicateResult(True)),
    ("{{ workload.nope.deeper == 1 }}", PredicateResult(False, ("workload.nope",), is_mistake=True)),
    ("{{ not nope }}", PredicateResult(False, ("nope",), is_mistake=True)),
]


@pytest.mark.parametrize(("source", "verdict"), VERDICTS)
def test_a_predicate_decides_or_names_what_is_missing(source: str, verdict: PredicateResult) -> None:
    assert predicate(source, SCOPE) == verdict


WRONG = ["{{ a b }}", "{{ 'a' * 10**9 }}", "{{ ''.__class__.x }}"]
MISTAKEN = ["{{ none > 1 }}", "{{ 1 / 0 }}", "{{ 'a' in 3 }}", "{{ 'x'.index('y') }}", "{{ -'x' }}"]


@pytest.mark.parametrize("source", [*WRONG, *MISTAKEN, "{{ workload.n > none }}", "{% if [] < 1 %}1{% endif %}"])
def test_an_error_in_a_predicate_fails_at_its_position(source: str) -> None:
    """Only the use of an undefined name reads as "no match" (semantics.md 34)."""
    with pytest.raises(TemplateFailure) as failure:
        predicate(source, SCOPE, SPAN)
    assert failure.value.span == SPAN


ABSENT = {"output": {"http": {"status": Absent("status")}, "error": {"retryable": Absent("retryable")}}}


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("{{ output.http.status >= 500 }}", PredicateResult(False, ("output.http.status",))),
        ("{{ 500 <= output.http.status }}", PredicateResult(False, ("output.http.status",))),
        ("{{ output.http.status // 100 == 5 }}", PredicateResult(False, ("output.http.status",))),
        (
            "{{ output.http.status == 429 or output.http.status >= 500 }}",
            PredicateResult(False, ("output.http.status",)),
        ),
        ("{{ output.http.status in [500, 503] }}", PredicateResult(False)),
        ("{{ output.http.status not in [500, 503] }}", PredicateResult(True)),
        ("{{ output.http.status == none and output.http.status is none }}", PredicateResult(True)),
        ("{{ not output.error.retryable }}", PredicateResult(True)),
        ("{{ (output.http.status | int) >= 500 }}", PredicateResult(False)),
        ("{{ (output.http.status | default(0, true)) >= 500 }}", PredicateResult(False)),
    ],
)
def test_a_missing_part_of_an_outcome_is_none_but_cannot_be_computed_with(
    source: str, verdict: PredicateResult
) -> None:
    assert predicate(source, ABSENT) == verdict


def test_a_missing_part_of_an_outcome_is_none_as_a_value() -> None:
    assert render_text("{{ output.http }}", ABSENT) == {"status": None}
    assert render_text("{{ output.http.status }}", ABSENT) is None
    assert render_text("{{ output.http.status }}{{ [output.http.status] | tojson }}", ABSENT) == "None[null]"
    with pytest.raises(TemplateFailure, match=r'^"output\.http\.status" is undefined$'):
        render_text("{{ output.http.status + 1 }}", ABSENT)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("source", ["{{ v | float }}", "{{ [v | float] }}", "{{ {'a': [1.5, v | float]} }}"])
def test_non_finite_numbers_are_not_data(source: str, number: str) -> None:
    """As null it would change the value of a run that continues as new."""
    with pytest.raises(TemplateFailure, match=f"yields {number}, which JSON cannot represent"):
        render_text(source, {"v": number})


def test_names_of_the_scope_win_over_globals_and_names_set_over_both() -> None:
    assert render_text("{{ range }}", {"range": 5}) == 5
    assert render_text("{% set range = 6 %}{{ range }}", {"range": 5}) == "6"


def test_only_the_names_a_template_uses_are_looked_up() -> None:
    class WatchedDict(dict[str, Any]):
        def __missing__(self, name: str) -> Any:
            requests.append(name)
            raise KeyError(name)

    requests: list[str] = []
    assert render_text("{{ a }}{{ b | default(2) }}", WatchedDict(a=1, c=3)) == "12"
    assert requests == ["b"]


def test_projection_is_the_smallest_that_renders_the_same() -> None:
    result = project(
        SCOPE, ["workload.n", "workload.nope", "page.body.rows", "page.status_code", "nope", "rows", "rows.x"]
    )
    assert result == {
        "workload": {"n": 3},
        "page": {"body": {"rows": [1, 2]}, "status_code": 200},
        "rows": [{"id": 1, "tag": "b"}, {"id": 2, "tag": "a"}],
    }
    result["rows"].clear()
    assert SCOPE["rows"]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_data_passes_through_unchanged(value: Json) -> None:
    scope = {"value": value}
    assert render_text("{{ value }}", scope) == value
    assert render_text("{{ [value][0] }}", scope) == value
    assert json.loads(render_text("{{ value | tojson }}", scope)) == value


@given(JSON)
def test_text_is_what_jinja_writes(value: Json) -> None:
    source = "x={{ value }} {{ [value] }}{{ {'a': value} }}{{ value ~ 1 }}"
    assert render_text(source, {"value": value}) == PLAIN_JINJA.from_string(source).render(value=value)


PLAIN_JINJA = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)

PIECES = st.sampled_from(
    [
        "{{",
        "}}",
        "{%",
        "%}",
        " ",
        "a",
        ".b",
        "[0]",
        "'",
        '"',
        "|",
        "length",
        "(",
        ")",
        "{#",
        "#}",
        "1",
        "*",
        "for x in a",
        "endfor",
        "if",
        "~",
    ]
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=15).map("".join)))
def test_any_text_gives_a_value_or_a_failure(source: str) -> None:
    scope = {"a": {"b": [1, "x"]}, "x": "y"}
    assert outcome(source, scope) == outcome(source, scope)


def outcome(source: str, scope: dict[str, Any]) -> tuple[str, PredicateResult | str]:
    """The rendering as JSON and the verdict, or the failures' messages."""
    try:
        rendered_text = json.dumps(render_text(source, scope))
    except TemplateFailure as failure:
        rendered_text = failure.message
    try:
        return rendered_text, predicate(source, scope)
    except TemplateFailure as failure:
        return rendered_text, failure.message


def test_a_cached_predicate_costs_less_than_twice_what_jinja_takes() -> None:
    source = "{{ output.status == 'error' and output.http.status in [500, 502, 503] }}"
    scope = {"output": {"status": "error", "http": {"status": 503}}, **{f"k{n}": n for n in range(30)}}
    template = PLAIN_JINJA.from_string(source)
    ours = min(timeit.repeat(lambda: predicate(source, scope), number=200, repeat=5))
    theirs = min(timeit.repeat(lambda: template.render(scope), number=200, repeat=5))
    assert ours < 2 * theirs


def test_a_constant_that_cannot_be_computed_does_not_crash_the_check() -> None:
    source = "{% set a = 2.5[0] and 1 %}{{ a }}"
    assert template_problems(source) == ()
    with pytest.raises(TemplateFailure):
        render_text(source, {})
