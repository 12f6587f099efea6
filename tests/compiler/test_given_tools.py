"""Tools that a caller gives to the compiler are known as those of NoETL itself are."""

from __future__ import annotations

from typing import Any, cast

import pytest
from jsonschema import Draft7Validator

from noetl_compiler import compile_text, preview
from noetl_compiler.diagnostics import Severity, one_line
from noetl_compiler.guarantees import call_guarantee
from noetl_compiler.language.tool_description import Guarantee, ToolDescription, ToolField
from noetl_compiler.language.tools import KINDS
from noetl_compiler.language.words import Dialect
from noetl_compiler.migration import migrate, migrate_parsed
from noetl_compiler.phases import parse_playbook
from noetl_compiler.schema import DIALECTS, json_schema, schema_of_all
from noetl_compiler.schema.lookup import UnknownPathError, lookup
from noetl_compiler.schema.tools import ToolKinds
from noetl_compiler.source import SourceFile

GREETER = ToolDescription(
    "Greets somebody.",
    {
        "greeting": ToolField("The word to begin with.", ("text",), default="Hello"),
        "name": ToolField("Who is greeted.", ("text",)),
        "times": ToolField("How often.", ("number",), default=1),
        "tone": ToolField("How it sounds.", ("text",), choices=("warm", "cold")),
    },
    needs=(("greeting",),),
    result={"text": ToolField("What was said.")},
    effect="code",
    has_executor=True,
)
TOOLS = {**KINDS, "greet": GREETER}
HEAD = "kind: Playbook\nmetadata: {name: x}\nworkflow:\n  - step: start\n    tool: "
FORMS = {
    "v10": f"apiVersion: noetl.io/v2\n{HEAD}{{kind: greet, %s}}\n",
    "v10 list": f"apiVersion: noetl.io/v2\n{HEAD}[{{say: {{kind: greet, %s}}}}]\n",
    "legacy": f"apiVersion: noetl.io/v1\n{HEAD}{{kind: greet, %s}}\n",
    "a step of v1": "kind: Playbook\nmetadata: {name: x}\nworkflow:\n  - {step: start, type: greet, %s}\n",
    "a call of v1": "kind: Playbook\nmetadata: {name: x}\nworkflow:\n  - {step: start, call: {type: greet, %s}}\n",
}


def findings_of(text: str, tools: Any = TOOLS) -> list[str]:
    return [
        f"{one_line(diagnostic)} ({diagnostic.hint})" for diagnostic in compile_text(text, "p.yaml", tools).diagnostics
    ]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_valid_call_compiles_in_every_dialect(form: str) -> None:
    result = compile_text(form % "greeting: Hi, times: 2, tone: warm", tools=TOOLS)
    assert [diagnostic for diagnostic in result.diagnostics if diagnostic.severity is Severity.ERROR] == []
    assert result.graph is not None
    [task] = result.graph.steps["start"].tasks
    assert task.kind == task.queue == "greet"
    assert task.config.data == {"greeting": "Hi", "times": 2, "tone": "warm"}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("greting: Hi", 'did you mean "greeting"?'),
        ("times: 2", 'needs "greeting"'),
        ("greeting: Hi, times: often", '"times" must be a number, not a string'),
        ("greeting: Hi, tone: wram", 'invalid value "wram" for "tone" (did you mean "warm"?)'),
    ],
)
def test_a_wrong_field_is_an_error_in_every_dialect(form: str, fields: str, message: str) -> None:
    text = form % fields
    assert message in "\n".join(findings_of(text))
    assert compile_text(text, tools=TOOLS).graph is None


def test_a_misspelt_field_is_reported_at_its_place() -> None:
    [message] = findings_of(FORMS["v10"] % "greeting: Hi, tims: 2")
    assert message == 'p.yaml:6:39: error[NT102]: unknown key "tims" in a task (did you mean "times"?)'


def test_a_kind_that_no_package_provides_is_an_error_with_the_nearest() -> None:
    text = FORMS["v10"] % "greeting: Hi"
    [message] = findings_of(text.replace("greet,", "gret,"))
    assert 'unknown tool kind "gret" (did you mean "greet"? If not, install the package that provides it' in message
    [message] = findings_of(text.replace("greet,", "zzzzz,"))
    assert 'unknown tool kind "zzzzz" (install the package that provides it' in message
    assert "unknown tool kind" in findings_of(text, KINDS)[0]


def test_a_kind_that_is_given_is_no_longer_unsupported() -> None:
    text = FORMS["v10"].replace("greet,", "rhai,") % "code: x"
    assert "is not supported: the playbook compiles" in findings_of(text)[0]
    assert "(there is no maintained interpreter of Rhai for Python; write the script in python)" in findings_of(text)[0]
    rhai = ToolDescription("Runs scripts.", {"code": ToolField("The script.")}, has_executor=True)
    assert findings_of(text, {**KINDS, "rhai": rhai}) == []


def test_a_tool_that_cannot_be_used_has_a_reason() -> None:
    broken_tool = ToolDescription("Broken.", problem="the package greet: ImportError")
    [message] = findings_of(FORMS["v10"] % "greeting: Hi", {**KINDS, "greet": broken_tool})
    assert 'error[NT501]: tool kind "greet" cannot be used: the package greet: ImportError' in message


def test_a_sink_of_the_case_dialect_may_run_it() -> None:
    text = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\nworkflow:\n- step: start\n  tool: {kind: noop}\n"
        "  case: [{when: '{{ event.name == \"step.exit\" }}', then: {sink: {tool: greet, greeting: Hi}}}]\n"
    )
    result = compile_text(text, tools=TOOLS)
    assert result.graph is not None
    assert "greet" in [task.kind for task in result.graph.steps["start"].tasks]


def test_migration_accepts_a_tool_of_the_caller() -> None:
    source = SourceFile("p.yaml", FORMS["a step of v1"] % "greeting: Hi")
    migration = migrate_parsed(parse_playbook(source, TOOLS))
    assert migration.text is not None
    assert "kind: greet" in migration.text
    assert migrate(source).text is None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_schema_has_its_fields(dialect: Dialect) -> None:
    schema: dict[str, Any] = json_schema(dialect, ToolKinds(TOOLS))
    Draft7Validator.check_schema(schema)
    properties = schema["definitions"]["greet_fields"]["properties"]
    assert properties["greeting"] == {
        "description": "The word to begin with.",
        "anyOf": [{"type": ["string"], "default": "Hello"}, {"not": {"not": {"type": "null"}}}],
    }
    assert "one of warm, cold" in str(properties["tone"])
    assert "greet_fields" not in cast("dict[str, Any]", json_schema(dialect)["definitions"])


def test_the_schema_takes_a_right_call_and_refuses_a_wrong_one() -> None:
    for schema in (json_schema("v10", ToolKinds(TOOLS)), schema_of_all(ToolKinds(TOOLS))):
        validator: Any = Draft7Validator(schema)
        for fields, valid in (({"greeting": "Hi", "tone": "warm"}, True), ({"greting": "Hi"}, False), ({}, False)):
            tool = {"kind": "greet", **fields}
            playbook = {"metadata": {"name": "x"}, "workflow": [{"step": "start", "tool": tool}]}
            assert validator.is_valid({"apiVersion": "noetl.io/v2", "kind": "Playbook", **playbook}) is valid
        assert not validator.is_valid(
            {"metadata": {"name": "x"}, "workflow": [{"step": "start", "tool": {**tool, "greeting": 1, "tone": "hot"}}]}
        )


def test_explain_finds_the_tool_and_its_keys() -> None:
    kinds = ToolKinds(TOOLS)
    entry = lookup("greet", kinds)
    assert entry.about == "Greets somebody."
    assert ("greeting", "The word to begin with.") in entry.keys
    assert lookup("greet.times", kinds).default == 1
    with pytest.raises(UnknownPathError, match="greeting"):
        lookup("greet.greting", kinds)


def test_its_guarantee_is_reported() -> None:
    text = FORMS["v10"] % "greeting: Hi"

    def of(tool: ToolDescription, text: str = text) -> str:
        tools = {**KINDS, "greet": tool}
        graph = compile_text(text, tools=tools).graph
        assert graph is not None
        [task] = graph.steps["start"].tasks
        explain = preview.explain(graph, "start", tools=tools)
        guarantee = call_guarantee(task, tools)
        assert guarantee is None or str(guarantee) in explain
        return str(guarantee)

    guarantee = Guarantee("exactly once", "the server takes each key once")
    assert of(GREETER).startswith("at least once: repeated when a worker is lost")
    assert of(ToolDescription("x", effect="none", has_executor=True)) == "None"
    own_tool = ToolDescription("x", effect="code", guarantee=guarantee, has_executor=True)
    assert of(own_tool) == "exactly once: the server takes each key once"
    assert of(own_tool, text.replace("greeting: Hi", "spec: {idempotent: false}")).startswith("at most once")
