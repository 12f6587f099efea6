from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler.reader import MappingNode, ScalarNode, read
from noetl_compiler.source import SourceFile, Span, expression_ranges, lone_expression

TEXTS = st.text(alphabet="ab \n\r{}é\u2028")


@given(TEXTS)
def test_an_offset_and_its_place_are_the_same(text: str) -> None:
    source = SourceFile("p.yaml", text)
    for offset in range(len(text) + 1):
        assert source.offset(*source.position(offset)) == offset


@given(TEXTS)
def test_lines_are_those_of_an_editor(text: str) -> None:
    source = SourceFile("p.yaml", text)
    lines = re.split(r"\r\n|\r|\n", text)
    assert [source.line(number + 1) for number in range(len(lines))] == lines
    assert source.line(0) == source.line(len(lines) + 1) == ""


@given(TEXTS, st.data())
def test_a_span_gives_its_text(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    source = SourceFile("p.yaml", text)
    assert source.slice(source.span(start, end)) == text[start:end]


def test_places_outside_of_the_text_are_its_ends() -> None:
    source = SourceFile("p.yaml", "ab\ncd")
    assert source.position(99) == (2, 3)
    assert source.position(-1) == (1, 1)
    assert source.offset(9, 9) == 5
    assert source.offset(1, 99) == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no template", []),
        ("{{ a }} and {% if b %}", ["{{ a }}", "{% if b %}"]),
        ("{{ '}}' }}x", ["{{ '}}' }}"]),
        ('{{ "\\"}}" }}x', ['{{ "\\"}}" }}']),
        ("{{ {'a': {'b': 1}} }}x", ["{{ {'a': {'b': 1}} }}"]),
        ("{# {{ no }} #}{{ yes }}", ["{{ yes }}"]),
        ("{{ a {{ b", ["{{ a {{ b"]),
        ("{{ '", ["{{ '"]),
        ("{{- a -}}", ["{{- a -}}"]),
    ],
)
def test_expressions_end_where_jinja_ends_them(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in expression_ranges(text)] == expected


def test_quotes_that_never_close_cost_no_more_than_their_length() -> None:
    assert len(expression_ranges("{{ '" + "\\'" * 200_000)) == 1


STYLES = {
    "literal": "a: |  # {{ no }}\n  select {{ v0 }}\n    from {{ v1 }}\n",
    "literal with an indentation indicator": "a: |2-\n   {{ v0 }}\n  é {{ v1 }}\n",
    "folded": "a: >-\n  select {{ v0 }}\n  from\n\n  {{ v1\n  }}\n",
    "plain": "a: select {{ v0 }}\n  from {{\n  v1 }}\n",
    "single": "a: 'it''s {{ v0 }} ''{{ v1 }}'''\n",
    "single on several lines": "a: 'it''s\n  {{ v0 }}\n\n  ''{{ v1 }}'''\n",
    "double": 'a: "\\t\\"{{ v0 }}\\u00e9\\" {{ v1 }}"\n',
    "double on several lines": 'a: "\\\n  {{ v0\n  }} \\\n  \\ {{ v1 }}"\n',
    "with an anchor and a tag": "a: !!str &x\n  '{{ v0 }} {{ v1 }}'\n",
    "with windows line ends": "a: |\r\n  {{ v0 }}\r\n  {{ v1 }}\r\n",
}


def scalar(text: str) -> tuple[SourceFile, ScalarNode]:
    source = SourceFile("p.yaml", text)
    root, diagnostics = read(source)
    assert not diagnostics
    assert isinstance(root, MappingNode)
    node = root.get("a")
    assert isinstance(node, ScalarNode)
    return source, node


@pytest.mark.parametrize("style", STYLES)
def test_every_style_of_scalar_gives_exact_places(style: str) -> None:
    source, node = scalar(STYLES[style])
    texts = ["".join(source.slice(span).split()) for span in node.expressions]
    assert texts == ["{{v0}}", "{{v1}}"]


WORDS = st.sampled_from(["word", " ", "\n", "'", '"', "\\", "é", "# ", ": ", "\t", "%", "日本", "}", None])


@given(st.lists(WORDS, max_size=20), st.sampled_from(["'", '"', "|", ">", None]))
def test_expressions_are_found_in_any_surrounding_text(parts: list[str | None], style: str | None) -> None:
    """None stands for an expression. Single closing braces may stand around them, as in JSON text."""
    names = [f"{{{{ v{index} }}}}" for index, part in enumerate(parts) if part is None]
    text = "".join(f"{{{{ v{index} }}}}" if part is None else part for index, part in enumerate(parts))
    source, node = scalar(yaml.dump({"a": text}, default_style=style, allow_unicode=True, width=30))
    assert node.value == text
    texts = [re.sub(r"[\s\\]", "", source.slice(span)) for span in node.expressions]
    assert texts == [name.replace(" ", "") for name in names]


def test_a_brace_written_as_an_escape_gives_the_whole_scalar() -> None:
    _, node = scalar('a: "\\x7b{ v }} {{ w }}"\n')
    assert node.expressions == (node.span, node.span)


def test_the_span_of_a_template_covers_its_expressions_only() -> None:
    _, node = scalar("a: x {{ v0 }} y {{ v1 }} z\n")
    assert node.template_span == Span(1, 6, 1, 25)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("{{ a }}", "a"),
        (" {{a}}\n", "a"),
        ("{{- a -}}", "a"),
        ("{{+ a }}", "a"),
        ("{{ -a }}", "-a"),
        ("{{ +a }}", "+a"),
        ("{{ {'a': {}} }}", "{'a': {}}"),
        ("{{ }}", ""),
        ("a", None),
        ("{{ a }} b", None),
        ("{{ a }}{{ b }}", None),
        ("{% if a %}", None),
        ("{{ a", None),
    ],
)
def test_a_lone_expression_is_returned_without_its_braces(text: str, expression: str | None) -> None:
    assert lone_expression(text) == expression
