"""A broken template is reported at its place, wherever it is; no check of templates crashes on it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code

OK = Path(__file__).parent / "corpus" / "ok"
EXPECTED_CODES = {Code.TEMPLATE_SYNTAX, Code.TEMPLATE_IN_CODE, Code.PYTHON_SYNTAX}
"""The last two where the template stands in code."""
TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")


def places(text: str) -> list[tuple[int, int]]:
    return [diagnostic.span() for diagnostic in TEMPLATE.finditer(text)]


@pytest.mark.parametrize("path", sorted(OK.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_template_may_be_broken(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    whole = compile_text(text).diagnostics
    for start, end in places(text):
        broken_template = "{{" + "=" * (end - start - 4) + "}}"
        result = compile_text(text[:start] + broken_template + text[end:])
        if set(result.diagnostics) - set(whole):
            line = text.count("\n", 0, start) + 1
            assert any(
                diagnostic.code in EXPECTED_CODES and diagnostic.span.line == line for diagnostic in result.diagnostics
            )
