"""What a tool says of itself, as the compiler reads it, and tools that cannot be used."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from enum import Enum
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from noetl_activities.errors import ConfigError
from noetl_activities.installed_tools import installed_tools
from noetl_activities.testing import FakeTool
from noetl_activities.tool import BUILT_IN, Request, load_tools, tool_kinds
from noetl_activities.tool_models import field_table, read_fields, required_fields
from noetl_activities.tool_spec import ToolSpec, built_in
from noetl_compiler import compile_text
from noetl_compiler.language.keys import INPUT
from noetl_compiler.language.tools import KINDS, RESERVED_FIELDS
from noetl_compiler.schema.calls import CALL


class Tone(Enum):
    WARM = "warm"
    COLD = "cold"


class Inner(BaseModel):
    depth: int


class Fields(BaseModel):
    text: str
    path: Path
    day: date | None = None
    count: int = 3
    share: float = Field(0.5, description="What part.")
    flag: bool = False
    names: list[str] = Field(default_factory=list[str], examples=[["a"]])
    inner: Inner | None = None
    either: str | list[str] = ""
    tone: Tone = Tone.WARM
    mode: Literal["a", "b"] | None = None
    level: Literal[1, 2] = 1
    anything: Any = None
    other: int = Field(0, alias="else")


def test_the_types_of_a_model_are_distinguished() -> None:
    table = field_table(Fields)
    assert {name: field.types for name, field in table.items()} == {
        "text": ("text",),
        "path": ("text",),
        "day": ("text",),
        "count": ("number",),
        "share": ("number",),
        "flag": ("flag",),
        "names": ("list",),
        "inner": ("mapping",),
        "either": ("text", "list"),
        "tone": ("text",),
        "mode": ("text",),
        "level": ("number",),
        "anything": (),
        "else": ("number",),
    }
    choices = {name: field.choices for name, field in table.items() if field.choices}
    assert choices == {"tone": ("warm", "cold"), "mode": ("a", "b"), "level": ("1", "2")}
    defaults = {name: field.default for name, field in table.items() if field.default is not None}
    assert defaults == {"count": 3, "share": 0.5, "flag": False, "either": "", "tone": "warm", "level": 1, "else": 0}
    assert (table["share"].about, table["text"].about) == ("What part.", 'The field "text".')
    assert table["names"].examples == (["a"],)
    assert required_fields(Fields) == (("text",), ("path",))


def test_a_spec_describes_itself() -> None:
    spec = ToolSpec("greet", "Greets.", Fields, Inner, effects=False, guarantee=("exactly once", "because"), timeout=5)
    description = spec.describe()
    assert description.summary == "Greets."
    assert description.needs == (("text",), ("path",))
    assert description.result.keys() == {"depth"}
    assert (description.effect, description.guarantee, description.timeout, description.has_executor) == (
        "none",
        ("exactly once", "because"),
        5,
        True,
    )
    assert ToolSpec("greet", "Greets.").describe().fields is None


@pytest.mark.parametrize("kind", ["", "Greet", "a-b", "a.b", "7up"])
def test_a_kind_must_be_a_word(kind: str) -> None:
    with pytest.raises(ValueError, match="must be a word"):
        ToolSpec(kind, "x")


@pytest.mark.parametrize("kind", ["playbook", "workbook", "start", "frame"])
def test_a_kind_with_another_meaning_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="is reserved: choose another"):
        ToolSpec(kind, "x").describe()


def test_a_field_that_every_call_has_is_refused() -> None:
    class TakenSettings(BaseModel):
        timeout: int
        auth: str

    with pytest.raises(ValueError, match="every call may have auth, timeout"):
        ToolSpec("greet", "x", TakenSettings).describe()


def test_reserved_names_are_the_fields_of_every_call() -> None:
    assert {*CALL.names, *INPUT, "kind", "type", "name", "label", "spec", "policy"} == RESERVED_FIELDS


# ---- a call ----------------------------------------------------------------------------------------------------------


def test_a_null_counts_as_absent() -> None:
    fields = read_fields(Fields, Request("greet", {"text": "a", "path": "b", "count": None}))
    assert (fields.count, fields.path) == (3, Path("b"))


def test_invalid_fields_are_reported_without_their_values() -> None:
    with pytest.raises(ConfigError) as error:
        read_fields(Fields, Request("greet", {"text": "a", "count": "hunter2", "inner": {"depth": "hunter2"}}))
    message = str(error.value)
    assert '"path": Field required' in message
    assert '"count": Input should be a valid integer' in message
    assert '"inner.depth"' in message
    assert "hunter2" not in message


# ---- what is installed -----------------------------------------------------------------------------------------------


def test_tools_of_noetl_describe_themselves_as_the_language_does() -> None:
    for kind, tool in load_tools().items():
        assert tool.spec == built_in(kind, tool.spec.max_concurrent)
        assert tool.spec.describe() is KINDS[kind]
        assert (tool.spec.summary, tool.spec.timeout) == (KINDS[kind].summary, KINDS[kind].timeout)
        assert tool.spec.effects == (KINDS[kind].effect != "none")


GREET = FakeTool("greet", lambda _request, _context: None)
OTHER = FakeTool("other", lambda _request, _context: None)


class WrongSpec:
    spec = ToolSpec("workbook", "x")


WRONG = WrongSpec()


def register(monkeypatch: pytest.MonkeyPatch, *points: tuple[str, str]) -> None:
    entry_points_ = [
        EntryPoint(name, f"{__name__}:{value}" if value.isupper() else value, "noetl.tools") for name, value in points
    ]

    def entry_points(group: str) -> list[EntryPoint]:
        return entry_points_ if group == "noetl.tools" else []

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)


def test_an_installed_tool_is_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, ("greet", "GREET"), ("rhai", "nowhere:TOOL"))
    tools = installed_tools()
    assert tools["greet"] == GREET.spec.describe()
    assert list(tools) == [*KINDS, "greet"]
    assert len(tools) == len(KINDS) + 1
    assert "greet" in tools
    assert "grete" not in tools
    assert tools["http"] is KINDS["http"]
    assert tools["gcs"] is KINDS["gcs"]


@pytest.mark.parametrize(
    ("kind", "points", "problem"),
    [
        ("gone", [("gone", "nowhere.at_all:TOOL")], "ModuleNotFoundError: No module named 'nowhere'"),
        ("lost", [("lost", "NOTHING")], "AttributeError"),
        ("other", [("other", "GREET")], "the tool 'greet' is registered as 'other'"),
        ("workbook", [("workbook", "WRONG")], "is reserved: choose another"),
        ("greet", [("greet", "GREET"), ("greet", "OTHER")], "it is registered by"),
        ("rhai", [("rhai", "nowhere:TOOL")], "ModuleNotFoundError"),
    ],
)
def test_a_tool_that_cannot_be_loaded_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, kind: str, points: list[tuple[str, str]], problem: str
) -> None:
    register(monkeypatch, *points)
    tool = installed_tools()[kind]
    assert problem in tool.problem
    assert not tool.has_executor


def test_a_broken_tool_disturbs_only_its_own_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, ("gone", "nowhere:TOOL"))
    text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\nworkflow: [{step: start, tool: {kind: %s}}]\n"
    assert compile_text(text % "noop", tools=installed_tools()).graph is not None
    [diagnostic] = compile_text(text % "gone", tools=installed_tools()).diagnostics
    assert 'tool kind "gone" cannot be used: ?: ModuleNotFoundError' in diagnostic.message


@pytest.mark.parametrize("load", [load_tools, tool_kinds])
def test_two_of_one_kind_are_an_error_that_names_both(monkeypatch: pytest.MonkeyPatch, load: Any) -> None:
    register(monkeypatch, ("greet", "GREET"), ("greet", "OTHER"))
    with pytest.raises(ValueError, match="registered by both"):
        load()


def test_a_worker_starts_without_a_tool_that_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    register(monkeypatch, ("gone", "nowhere:TOOL"), ("greet", "GREET"), ("other", "GREET"))
    assert load_tools() == {"greet": GREET}
    assert "the tool gone is omitted: ?: ModuleNotFoundError" in caplog.text
    assert "the tool other is omitted: ?: ValueError: the tool 'greet' is registered as 'other'" in caplog.text


def test_one_of_noetl_itself_that_cannot_be_loaded_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, ("http", "nowhere:TOOL"))
    with pytest.raises(ModuleNotFoundError):
        load_tools()


def test_packages_are_looked_for_only_where_a_kind_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(**_group: str) -> None:
        raise AssertionError

    monkeypatch.setattr("importlib.metadata.entry_points", forbidden)
    tools = installed_tools()
    assert {kind: tools[kind] for kind in BUILT_IN} == {kind: KINDS[kind] for kind in BUILT_IN}


def test_neither_compiling_nor_a_call_in_a_process_of_its_own_imports_pydantic() -> None:
    for modules in ("noetl_compiler.phases, noetl_activities.installed_tools", "noetl_activities.duckdb.child"):
        program = f"import sys, {modules}; print('pydantic' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert done.stdout == "False\n", done.stderr
