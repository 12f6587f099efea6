from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import (
    Diagnostic,
    Related,
    Severity,
    did_you_mean,
    one_line,
    render,
    sort_and_dedupe,
)
from noetl_compiler.source import SourceFile, Span

SOURCE = SourceFile("p.yaml", "a: 1\nb: 2\na: 3\n日本: {{ x }}\n")
DUPLICATE = Diagnostic(
    Code.DUPLICATE_KEY,
    Severity.ERROR,
    Span(3, 1, 3, 2),
    'duplicate key "a"',
    "remove one",
    (Related(Span(1, 1, 1, 2), "it is here first"),),
    "p.yaml",
)


def test_a_diagnostic_shows_its_place_the_others_and_the_remedy() -> None:
    assert render(DUPLICATE, SOURCE).splitlines() == [
        'p.yaml:3:1: error[NT003]: duplicate key "a"',
        "  |",
        "3 | a: 3",
        "  | ^",
        "p.yaml:1:1: note: it is here first",
        "  |",
        "1 | a: 1",
        "  | ^",
        "help: remove one",
    ]


def test_one_line_is_for_lists_and_prints() -> None:
    assert one_line(DUPLICATE) == 'p.yaml:3:1: error[NT003]: duplicate key "a"'
    assert str(DUPLICATE) == one_line(DUPLICATE)


def test_the_caret_is_aligned_below_wide_characters() -> None:
    finding = replace(DUPLICATE, span=Span(4, 5, 4, 12), related=(), hint="")
    assert render(finding, SOURCE).splitlines()[2:] == ["4 | 日本: {{ x }}", "  |       ^~~~~~~"]


def test_a_span_over_several_lines_is_marked_to_the_end_of_its_first() -> None:
    finding = replace(DUPLICATE, span=Span(1, 2, 3, 2), related=(), hint="")
    assert render(finding, SOURCE).splitlines()[-1] == "  |  ^~~"


def test_a_long_line_is_truncated_around_the_position() -> None:
    source = SourceFile("p.yaml", "x" * 5000 + "HERE" + "y" * 5000)
    finding = replace(DUPLICATE, span=Span(1, 5001, 1, 5005), related=(), hint="")
    line, caret = render(finding, source).splitlines()[2:]
    assert len(line) < 200
    assert line[caret.index("^") :].startswith("HERE")


def test_control_characters_are_not_printed() -> None:
    source = SourceFile("p.yaml", "a\x1b[31m: \t1")
    finding = replace(DUPLICATE, span=Span(1, 1, 1, 2), message="the key \x1b[2J", related=(), hint="\x07")
    text = render(finding, source)
    assert all(char.isprintable() or char == "\n" for char in text)


@given(st.text(), st.tuples(*[st.integers(-2, 9)] * 4))
def test_any_invalid_position_can_be_shown(text: str, place: tuple[int, int, int, int]) -> None:
    finding = replace(DUPLICATE, span=Span(*place), related=())
    assert "error[NT003]" in render(finding, SourceFile("p.yaml", text))


def test_diagnostics_come_in_reading_order_and_once() -> None:
    first = replace(DUPLICATE, span=Span(1, 1, 1, 2))
    other_code = replace(DUPLICATE, code=Code.YAML_SYNTAX)
    other_file = replace(DUPLICATE, file="a.yaml", span=Span(9, 1, 9, 2))
    given_order = [DUPLICATE, other_code, first, other_file, DUPLICATE]
    assert sort_and_dedupe(given_order) == (other_file, first, other_code, DUPLICATE)
    assert sort_and_dedupe(reversed(given_order)) == sort_and_dedupe(given_order)


@pytest.mark.parametrize(
    ("name", "candidates", "hint"),
    [
        ("fetc", ["store", "fetch"], 'did you mean "fetch"?'),
        ("xyz", ["store", "fetch"], ""),
        ("a", [], ""),
        ("fetcx", ["fetca", "fetcb"], 'did you mean "fetcb"?'),
        ("x" * 101, ["x" * 100], ""),
    ],
)
def test_the_nearest_name_is_offered(name: str, candidates: list[str], hint: str) -> None:
    assert did_you_mean(name, candidates) == did_you_mean(name, reversed(candidates)) == hint


TYPOS = (
    "ulr url, metod method, kidn kind, nxt next, cod code, wehn when, retires retries, qurey query, htpp http, "
    "too tool, lop loop, ruels rules, whn when, arc arcs, max_attempt attempts, tbl table, mdoe mode, knwn known"
)
OTHER_WORDS = (
    "adress headers, adress params, parallel label, name kind, output input, host port, url form, user server, "
    "pages path, body code, items limit, fetch match, target args, table tasks, verify query"
)


@pytest.mark.parametrize("pair", TYPOS.split(", "))
def test_a_typo_is_near(pair: str) -> None:
    name, meant = pair.split()
    assert did_you_mean(name, [meant]) == f'did you mean "{meant}"?'


@pytest.mark.parametrize("pair", OTHER_WORDS.split(", "))
def test_another_word_is_not_near(pair: str) -> None:
    name, other = pair.split()
    assert did_you_mean(name, [other]) == ""


def test_a_credential_is_masked_in_its_snippet() -> None:
    source = SourceFile("p.yaml", "a: {password: hunter2, b: 1}\n")
    finding = replace(DUPLICATE, code=Code.CREDENTIAL_IN_TEXT, span=Span(1, 15, 1, 22), related=())
    assert render(finding, source).splitlines()[2:4] == [
        "1 | a: {password: *******, b: 1}",
        "  |               ^~~~~~~",
    ]


def test_a_credential_is_masked_beside_any_other_finding_too() -> None:
    source = SourceFile("p.yaml", "{password: hunter2, colour: x}\nkey: |\n  hunter3\n  more\n")
    hidden_spans = [Span(1, 12, 1, 19), Span(2, 6, 4, 7)]
    other = replace(DUPLICATE, span=Span(1, 21, 1, 27), related=(Related(Span(3, 3, 3, 9), "here"),), hint="")
    text = render(other, source, hidden_spans)
    assert "{password: *******, colour: x}" in text
    assert "hunter" not in text
