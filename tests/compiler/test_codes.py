"""Every code is explained in codes.md, whose examples are compiled here. Cases of each are in corpus/err."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from noetl_compiler import compile_file, compile_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import one_line
from noetl_compiler.phases import parse_playbook
from noetl_compiler.playbook_set import read_folder, with_call_diagnostics
from noetl_compiler.source import SourceFile

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "compiler" / "noetl_compiler" / "codes.md"

NO_EXAMPLE = {Code.UNREADABLE_FILE}
"""What the page cannot show, for it is text itself."""

SECTION = re.compile(r"^## (NT\d+) ([^\n]+)\n\n(.+?)\n(?=## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"```(yaml|text)\n(.*?)```", re.DOTALL)


class Section(NamedTuple):
    code: str
    text: str
    blocks: dict[str, str]


def sections() -> list[Section]:
    matches = SECTION.findall(PAGE.read_text(encoding="utf-8") + "\n")
    return [Section(code, text, dict(BLOCK.findall(text))) for code, _, text in matches]


def test_every_code_is_explained_once_in_order() -> None:
    assert [section.code for section in sections()] == sorted(code.value for code in Code)


def test_a_code_links_to_its_section() -> None:
    titles = re.findall(r"^## (NT\d+ [^\n]+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [code.docs.partition("#")[2] for code in sorted(Code, key=lambda code: code.value)] == [
        title.lower().replace(" ", "-") for title in titles
    ]


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.code)
def test_the_page_has_the_meaning_of_the_code(section: Section) -> None:
    assert Code(section.code).meaning in section.text.replace("\n", " ")


@pytest.mark.parametrize(
    "section", [section for section in sections() if section.blocks], ids=lambda section: section.code
)
def test_an_example_gives_what_is_shown(section: Section, tmp_path: Path) -> None:
    """Its documents form a catalog; the diagnostics of the first are shown."""
    texts = section.blocks["yaml"].split("---\n")
    for index, text in enumerate(texts):
        (tmp_path / f"{index}.yaml").write_text(text, encoding="utf-8")
    source = SourceFile(str(tmp_path / "0.yaml"), texts[0])
    diagnostics = with_call_diagnostics(parse_playbook(source), read_folder(tmp_path)).diagnostics
    shown_lines = "".join(f"{one_line(diagnostic)}\n" for diagnostic in diagnostics)
    assert shown_lines.replace(source.file, "playbook.yaml") == section.blocks["text"]
    assert section.code in {diagnostic.code.value for diagnostic in diagnostics}


def test_every_code_that_can_has_an_example() -> None:
    assert {section.code for section in sections() if not section.blocks} == {code.value for code in NO_EXAMPLE}


def test_a_missing_file_is_a_finding() -> None:
    result = compile_file("no/such/playbook.yaml")
    assert [diagnostic.code for diagnostic in result.diagnostics] == [Code.UNREADABLE_FILE]
    assert result.graph is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x" * 65_537, "this value has 65,537 bytes, and every run stores it"),
        (f"[{'a, ' * 65_537}]", "this value has 65,537 bytes, and every run stores it"),
        ("x" * 65_000, None),
    ],
    ids=["a text", "a list", "just small enough"],
)
def test_data_that_is_too_large_is_a_finding(value: str, message: str | None) -> None:
    text = f"metadata: {{name: x}}\nworkload:\n  a: {value}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]\n"
    diagnostics = [
        diagnostic for diagnostic in compile_text(text).diagnostics if diagnostic.code is Code.OVERSIZED_DATA
    ]
    assert [(diagnostic.message, diagnostic.span.line, diagnostic.span.col) for diagnostic in diagnostics] == (
        [(message, 3, 6)] if message else []
    )


def test_a_huge_text_is_a_finding() -> None:
    result = compile_text("workflow:\n" + "- " * 10_000)
    assert Code.BUDGET_EXCEEDED in {diagnostic.code for diagnostic in result.diagnostics}
