"""What is not YAML is finding_of where the mistake was made, and with what mends it."""

from __future__ import annotations

import pytest
import yaml

from noetl_compiler import compile_text
from noetl_compiler.diagnostics import one_line
from noetl_compiler.reader import read
from noetl_compiler.source import SourceFile
from tests.compiler.marked import HEAD

STEP = "workflow:\n  - step: start\n"
TOOL = f"{STEP}    tool:\n      kind: http\n"

A_TAB = ("a tab is used for indentation", "use spaces")
OPEN_QUOTE = "this quote is never closed"
HAS_VALUE = 'or remove the value; text that contains ": " needs quotes'


def finding_of(text: str) -> tuple[int, int, str, str]:
    """The one finding of a text."""
    (diagnostic,) = read(SourceFile("p.yaml", text))[1]
    return diagnostic.span.line, diagnostic.span.col, diagnostic.message, diagnostic.hint


def message_for(key: str) -> str:
    return f'"{key}" does not match the indentation of any block around it'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{STEP}\ttool:\n      kind: noop\n", (3, 1, *A_TAB)),
        (f"{STEP}    tool:\n\tkind: noop\n", (4, 1, *A_TAB)),
        (f"{STEP}    tool:\n  \tkind: noop\n", (4, 3, *A_TAB)),
        ("workflow:\n\t- step: start\n", (2, 1, *A_TAB)),
        ("workflow:\n  -\tstep: start\n", (2, 4, *A_TAB)),
        (f"{TOOL}    \tmethod: GET\n", (5, 5, *A_TAB)),
    ],
)
def test_a_tab_in_the_indentation_is_reported_as_such(text: str, expected: tuple[int, int, str, str]) -> None:
    assert finding_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{TOOL}  next:\n    arcs:\n", (5, 3, message_for("next"), 'indent it like "tool" in line 3')),
        (f"{STEP}   tool:\n      kind: http\n", (3, 4, message_for("tool"), 'indent it like "step" in line 2')),
        (
            f"{TOOL} next:\n    arcs:\n",
            (5, 2, message_for("next"), 'indent it like "tool" in line 3 or like "workflow" in line 1'),
        ),
        (
            f"{TOOL}     url: http://a\n",
            (5, 6, message_for("url"), 'indent it like "kind" in line 4 or like "tool" in line 3'),
        ),
    ],
)
def test_a_key_too_far_to_the_left_has_its_neighbours_reported(text: str, expected: tuple[int, int, str, str]) -> None:
    assert finding_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"{STEP}    tool: http\n      method: GET\n",
            (4, 7, '"method" is indented below "tool", which already has a value', 'indent it like "tool" in line 3'),
        ),
        (
            f"{TOOL}      url: http://a\n       method: GET\n",
            (6, 8, '"method" is indented below "url", which already has a value', 'indent it like "url" in line 5'),
        ),
    ],
)
def test_a_key_below_a_value_may_be_indented_wrongly(text: str, expected: tuple[int, int, str, str]) -> None:
    line, col, message, hint = expected
    assert finding_of(text) == (line, col, message, f"{hint}, {HAS_VALUE}")


def test_a_colon_in_a_text_still_needs_quotes() -> None:
    assert finding_of("a: b: c\n")[2:] == (
        "mapping values are not allowed in this context",
        HAS_VALUE.partition("; ")[2],
    )


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize(
    "later",
    ["", "      headers:\n        X: {0}b{0}\n", "      a: {0}{{{{ b }}}}{0}\n      c: {0}d{0}\n"],
    ids=["to the end", "to the next quote", "to a template"],
)
def test_a_missing_quote_is_reported_where_the_text_begins(quote: str, later: str) -> None:
    text = f"{TOOL}      url: {quote}http://a\n      method: GET\n{later.format(quote)}"
    assert finding_of(text) == (5, 12, OPEN_QUOTE, "close it")


def test_a_text_of_several_lines_is_not_a_missing_quote() -> None:
    """The quote that is too many stands after it."""
    text = 'a: "one\n  two"\nb: "three" four"\n'
    assert finding_of(text)[2] != OPEN_QUOTE
    assert finding_of(text)[0] == 3


@pytest.mark.parametrize(
    "template",
    [
        "{{ workload.url }}",
        "{{ workload.url }}/x",
        "{{ a['b'] }}",
        "{{ env, job }}",
        "{{ a | default('b') }}",
    ],
)
@pytest.mark.parametrize("more", ["", "      method: GET\n"])
def test_a_template_without_quotes_is_one_finding(template: str, more: str) -> None:
    text = f"{HEAD}{TOOL}      url: {template}\n{more}"
    (diagnostic,) = compile_text(text).diagnostics
    assert (diagnostic.span.line, diagnostic.span.col) == (8, 12)
    assert (diagnostic.message, diagnostic.hint) == (
        "a template is not quoted",
        'quote the template: "{{ ... }}"',
    )


def test_a_mistake_behind_a_quoted_template_is_not_a_missing_quote() -> None:
    assert "not quoted" not in finding_of('a: "x: {{ b }}" c\n')[2]


@pytest.mark.parametrize(
    ("template", "column"),
    [
        ("{{ workload.url }/x", 17),
        ("{{ workload.url }/x/{{ workload.url }}", 17),
        ("a {{ '}' }b", 10),
        ("{{ {'a': [1]}['a'] }b", 20),
        ("{{ workload.a }}{{ workload.b }", 31),
    ],
)
def test_a_single_brace_is_reported_at_its_place(template: str, column: int) -> None:
    text = f'{HEAD}{TOOL}      url: "{template}"\n'
    (diagnostic,) = (diagnostic for diagnostic in compile_text(text).diagnostics if diagnostic.code.value == "NT301")
    assert (diagnostic.span.line, diagnostic.span.col) == (8, 12 + column)
    assert (diagnostic.message, diagnostic.hint) == ("the braces are closed by a single }", "close them with }}")


def test_without_libyaml_the_mistakes_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = (
        f"{STEP}\ttool:\n",
        f"{STEP}    tool:\n\tkind: noop\n",
        f"{TOOL}  next:\n",
        f"{TOOL} next:\n",
        f"{STEP}    tool: http\n      method: GET\n",
        f'{TOOL}      url: "a\n      b: "c"\n',
        f"{TOOL}      url: {{{{ a }}}}/x\n",
    )
    fast = [one_line(diagnostic) for text in texts for diagnostic in read(SourceFile("p.yaml", text))[1]]
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert [one_line(diagnostic) for text in texts for diagnostic in read(SourceFile("p.yaml", text))[1]] == fast
