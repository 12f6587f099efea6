"""The pages of the reference agree with the code: tables, names, kinds of errors, commands, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dev.reference_tables import with_tables
from noetl_activities.tool import tool_kinds
from noetl_compiler.language import names as tables
from noetl_compiler.language.error_kinds import ERROR_KINDS, SQL_PREFIX, http_kind
from noetl_compiler.language.tools import KINDS
from noetl_temporal.cli.migrate import migrate_command

from .commands import commands_of, parses
from .reference_blocks import NOTES, PAGES, blocks

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "dev" / "reference"
TEXTS = {page.name: page.read_text("utf-8") for page in PAGES}


def page(name: str) -> str:
    return TEXTS[f"{name}.md"]


def section(text: str, title: str) -> str:
    """What stands below a heading, without code."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.split(r"^#+ .*\n", text.split(f"# {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(text: str) -> set[str]:
    """The words of the first column of its tables."""
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`(\w+)`", row)}


@pytest.mark.parametrize("name", TEXTS)
def test_tables_are_those_of_the_code(name: str) -> None:
    assert TEXTS[name] == with_tables(TEXTS[name]), "write them: python -m dev.reference_tables --write"


def test_the_result_of_every_tool_is_in_the_reference() -> None:
    shown_tables = set(re.findall(r"<!-- table: results (\w+) -->", "".join(TEXTS.values())))
    assert shown_tables == {name for name, kind in KINDS.items() if kind.has_executor and kind.result} - {
        "snowflake_transfer"
    }


@pytest.mark.parametrize("name", TEXTS)
def test_link_targets_exist(name: str) -> None:
    for target, anchor in re.findall(r"\]\((?!http)([^)#\s]*)(?:#([^)]*))?\)", TEXTS[name]):
        file = FOLDER / target if target else FOLDER / name
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), f"{target}#{anchor}"


def anchors(file: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_index_explains_every_note() -> None:
    assert first_cells(section(page("index"), "How to read it")) - {"failed"} == NOTES.keys()


def test_every_page_is_in_the_index() -> None:
    linked_pages = set(re.findall(r"\]\(([\w-]+\.md)\)", page("index")))
    assert linked_pages >= TEXTS.keys() - {"index.md"}


@pytest.mark.parametrize("name", sorted(TEXTS.keys() - {"security.md"}))
def test_lines_are_short(name: str) -> None:
    """But for tables and code. The page on security is not part of the language, and has lines of its own length."""
    prose = re.sub(r"^```.*?^```$|^\|.*$", "", TEXTS[name], flags=re.MULTILINE | re.DOTALL)
    assert [line for line in prose.splitlines() if len(line) > 132 and not line.startswith("`")] == []


@pytest.mark.parametrize("line", [line for text in TEXTS.values() for line in commands_of(text)])
def test_commands_and_their_options_exist(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parses(line, tmp_path, monkeypatch)


# ---- templates -------------------------------------------------------------------------------------------------------


def test_names_that_are_visible_everywhere() -> None:
    names = first_cells(section(page("templates"), "What is visible where"))
    assert names == tables.RUN


def test_names_of_a_task_and_an_iteration() -> None:
    words = set(re.findall(r"`(\w+)`", section(page("templates"), "What is visible where")))
    assert (
        words
        >= tables.PIPELINE | tables.ITERATION | tables.PREVIOUS_OUTCOME | tables.WORKLOAD_DEFAULTS - tables.ENVIRONMENT
    )


def test_the_names_visible_after_a_call_are_documented() -> None:
    text = section(page("templates"), "After a call")
    assert first_cells(text) == tables.OUTCOME.keys()
    assert set(re.findall(r"`event\.(\w+)`", text)) == tables.BELOW_EVENT


def test_counts_of_an_iteration() -> None:
    assert set(re.findall(r"`iter\.(\w+)`", section(page("loops"), "One after the other"))) == tables.BELOW_ITER


# ---- tools and errors ------------------------------------------------------------------------------------------------


def test_every_tool_has_a_section() -> None:
    assert set(re.findall(r"^## (\w+)$", page("tools"), re.MULTILINE)) == tool_kinds() | {"workbook"}


_KINDS = re.compile(
    r"""(?:ErrorInfo|failed_outcome|error_outcome|_undecided_report|_refusal_report|self\._fail)\(\s*"(\w+)\""""
    r"""|_failed_loop_report\(\w+, "(\w+)\""""
    r"""|kind(?:: ClassVar\[str\])? = "(\w+)"\n|"kind": "(\w+)", "message"|ITEMS_FAILED = "(\w+)\""""
)
_BY_WHAT_A_SERVER_SAID = frozenset(map(http_kind, (302, 401, 404, 429, 500))) | {"dns", "tls"}
"""Kinds that no literal beside a message names."""


def test_every_kind_of_error_is_reported() -> None:
    sources = [file for root in ("noetl_temporal", "activities") for file in (ROOT / root).rglob("*.py")]
    kinds = {kind for file in sources for match in _KINDS.findall(file.read_text("utf-8")) for kind in match if kind}
    internal = {"unrecorded"}  # the record of an attempt, not the error of a call
    error_kinds = {kind for kind in ERROR_KINDS if not kind.startswith(SQL_PREFIX)}
    assert error_kinds == (kinds | _BY_WHAT_A_SERVER_SAID) - internal


# ---- older playbooks -------------------------------------------------------------------------------------------------


def test_the_migrated_example_is_what_migrate_writes(tmp_path: Path) -> None:
    older, today, *_ = blocks(FOLDER / "from-noetl.md")
    file = tmp_path / "older.yaml"
    file.write_text(older.text)
    assert CliRunner().invoke(migrate_command, [str(file)]).stdout == today.text
