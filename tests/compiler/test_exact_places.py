"""A finding inside a template stands at its very line and column, however the YAML around it is written."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic
from noetl_compiler.source import SourceFile

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: x}
workflow:
  - step: start
    tool:
      kind: noop
"""

STYLES = {
    "plain": "      message: a {{ 1 | bad }}\n",
    "plain on several lines": "      message: a\n        b {{\n        1 |\n        bad }}\n",
    "single": "      message: 'it''s {{ ''x'' | bad }}'\n",
    "double": '      message: "\\t\\u00e9 \\"{{ \\"x\\" | bad }}"\n',
    "double with an escaped line break": '      message: "a \\\n        \\  {{ 1 \\\n        | bad }}"\n',
    "double with an escaped brace": '      message: "\\x7b\\x7b 1 | bad }} {{ 2 }}"\n',
    "literal": "      message: |  # {{ 0 | not_this }}\n        select 1\n          {{ 1\n          | bad }}\n",
    "literal with an indicator": "      message: |2-\n           x\n        {{ 1 | bad }}\n",
    "folded": "      message: >-\n        one\n        two\n\n        {{ 1 |\n        bad }}\n",
    "windows line ends": "      message: |\r\n        a\r\n        {{ 1 | bad }}\r\n",
    "flow": "      message: [a, {b: '{{ 1 | bad }}'}]\n",
    "flow on several lines": "      message: {a: [x,\n        'y {{ 1\n        | bad }}']}\n",
    "with an anchor and a tag": "      message: !!str &x\n        'a {{ 1 | bad }}'\n",
    "behind characters of two columns and of none": "      message: '👩‍👧 日本 é {{ 1 | bad }}'\n",
    "with a question mark before its key": "      ? message\n      : 'a {{ 1 | bad }}'\n",
    "behind a comment": "      message: # {{ 1 | not_this }}\n        'a {{ 1 | bad }}'\n",
    "the second of two on a line": "      message: '{{ bad }} {{ \"bad\" | bad }}'\n",
    "a name as in a string": "      message: |\n        {{ '| bad' }} {{ 1 | bad }}\n",
}


def unknown_filters(text: str) -> list[Diagnostic]:
    return [diagnostic for diagnostic in compile_text(text).diagnostics if diagnostic.code is Code.TEMPLATE_SYNTAX]


@pytest.mark.parametrize("style", STYLES)
def test_the_position_is_exact_in_every_style(style: str) -> None:
    text = HEAD + STYLES[style]
    (diagnostic,) = unknown_filters(text)
    source = SourceFile("", text)
    assert source.slice(diagnostic.span) == "bad"
    assert source.offset(diagnostic.span.line, diagnostic.span.col) == text.rindex("bad")


@pytest.mark.parametrize("style", STYLES)
def test_an_unreadable_scalar_is_reported_at_its_token(style: str) -> None:
    text = (HEAD + STYLES[style]).replace("| bad", "bad").replace("|\n        bad", " \n        bad")
    (diagnostic,) = unknown_filters(text)
    source = SourceFile("", text)
    assert source.offset(diagnostic.span.line, diagnostic.span.col) == text.rindex("bad")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"], ids=["unix", "windows", "old mac"])
def test_neither_line_ends_nor_a_byte_order_mark_move_a_place(style: str, line_end: str) -> None:
    text = (HEAD + STYLES[style]).replace("\r\n", "\n").replace("\n", line_end)
    (plain_finding,), (marked_finding,) = unknown_filters(text), unknown_filters(f"\ufeff{text}")
    assert SourceFile("", text).slice(plain_finding.span) == "bad"
    assert marked_finding.span == plain_finding.span


WORDS = st.sampled_from(["word", " ", "\n", "'", '"', "\\", "é", "# ", ": ", "\t", "%", "日本", "}", "bad", "{{ 1 }}"])
WRITTEN = st.sampled_from(["'", '"', "|", ">", None])


@given(st.lists(WORDS), st.lists(WORDS), WRITTEN, st.booleans())
def test_the_position_is_exact_in_any_surrounding_text(
    before: list[str], after: list[str], style: str | None, flow: bool
) -> None:
    message = "".join([*before, "{{ 'x' | bad_filter }}", *after])
    task = {"kind": "noop", "message": message}
    document = {"metadata": {"name": "x"}, "workflow": [{"step": "start", "tool": task}]}
    text = yaml.dump(document, default_style=style, default_flow_style=flow, allow_unicode=True, width=30)
    (diagnostic,) = unknown_filters(text)
    source = SourceFile("", text)
    assert source.slice(diagnostic.span) == "bad_filter"
    assert source.offset(diagnostic.span.line, diagnostic.span.col) == text.index("bad_filter")
