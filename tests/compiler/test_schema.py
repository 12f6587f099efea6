"""The schemas: valid themselves, true for what compiles, false where a key, a type or a kind is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft7Validator

from noetl_compiler import compile_file, compile_text
from noetl_compiler.dialects.detect import detect
from noetl_compiler.graph import Json
from noetl_compiler.language.tools import KINDS, PSEUDO_KINDS
from noetl_compiler.language.words import Dialect
from noetl_compiler.nodes import MappingNode, to_json
from noetl_compiler.reader import read, read_file
from noetl_compiler.report import Report
from noetl_compiler.schema import DIALECTS, json_schema, models_of, schema_of_all
from noetl_compiler.source import SourceFile

ROOT = Path(__file__).parents[2]
EXAMPLES = set((ROOT / "dev").glob("*examples/*.yaml")) - set((ROOT / "dev").glob("*examples/*.test.yaml"))
OWN_PLAYBOOKS = sorted((ROOT / "tests/compiler/corpus/ok").glob("*.yaml")) + sorted(EXAMPLES)
SHARED_CORPUS = ROOT.parent / "shared/corpus"


@cache
def validator(dialect: Dialect) -> Any:
    return Draft7Validator(json_schema(dialect))


def definitions(dialect: Dialect) -> dict[str, Any]:
    return cast("dict[str, Any]", json_schema(dialect)["definitions"])


@cache
def of_all() -> Any:
    return Draft7Validator(schema_of_all())


def leaves(data: Json) -> Iterator[Json]:
    if isinstance(data, dict):
        data = list(cast("dict[str, Json]", data).values())
    if isinstance(data, list):
        yield from (leaf for element in cast("list[Json]", data) for leaf in leaves(element))
    else:
        yield data


def problems(source: SourceFile) -> list[str]:
    root, _ = read(source)
    assert isinstance(root, MappingNode)
    schema_errors = validator(detect(root, Report(source))).iter_errors(to_json(root))
    return [f"{problem.json_path}: {problem.message[:200]}" for problem in schema_errors]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_schema_is_a_valid_json_schema(dialect: Dialect) -> None:
    Draft7Validator.check_schema(json_schema(dialect))


def test_the_schema_of_all_refuses_what_no_dialect_takes() -> None:
    Draft7Validator.check_schema(schema_of_all())
    valid: dict[str, Any] = {"metadata": {"name": "x"}, "workflow": [{"step": "start", "tool": {"kind": "noop"}}]}
    assert of_all().is_valid(valid)
    assert not of_all().is_valid({**valid, "workflow": [{"step": "start", "tol": {"kind": "noop"}}]})


def test_the_schema_of_all_defines_once_what_dialects_share() -> None:
    names = schema_of_all()["definitions"]
    assert {"metadata", "http_fields", "v10_step", "case_step", "legacy_step", "v1_step"} <= set(names)
    assert not {"step", "v10_http_fields"} & set(names)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_snippets_for_editors_are_valid_yaml(dialect: Dialect) -> None:
    snippets = [
        property_["defaultSnippets"][0]["body"]
        for place in definitions(dialect).values()
        for property_ in place.get("properties", {}).values()
        if property_ is not True and "defaultSnippets" in property_
    ]
    assert snippets
    templates = [text for body in snippets for text in leaves(body) if isinstance(text, str) and "{{" in text]
    assert [text for text in templates if not (text[0] == text[-1] == '"')] == []


@pytest.mark.parametrize("path", OWN_PLAYBOOKS, ids=lambda path: path.stem)
def test_a_playbook_that_compiles_is_valid(path: Path) -> None:
    source, _ = read_file(path)
    assert problems(source) == []
    root, _ = read(source)
    assert root is not None
    assert of_all().is_valid(to_json(root))


@pytest.mark.skipif(not SHARED_CORPUS.is_dir(), reason="../shared/corpus is not here")
def test_every_playbook_of_the_corpus_that_compiles_is_valid() -> None:
    manifest = json.loads((SHARED_CORPUS / "manifest.json").read_text(encoding="utf-8"))
    results = ((entry["path"], compile_file(SHARED_CORPUS / entry["path"])) for entry in manifest)
    assert {
        path: schema_problems
        for path, result in results
        if result.graph and (schema_problems := problems(result.source))
    } == {}


STEP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: x}
workflow:
  - step: start
"""
LEGACY = STEP.replace("v2", "v1")
CALL = "tool: {kind: http, url: 'http://x'}"
WRONG = {
    "an unknown key of a step": f"{STEP}    {CALL}\n    nxt: end",
    "an unknown field of a tool": f"{STEP}    tool: {{kind: http, url: 'http://x', metod: GET}}",
    "an unknown field of a tool in its spec": f"{STEP}    tool: {{kind: http, url: 'http://x', spec: {{metod: GET}}}}",
    "a field of another tool": f"{STEP}    tool: {{kind: http, url: 'http://x', code: x}}",
    "an unknown kind": f"{STEP}    tool: {{kind: htp, url: 'http://x'}}",
    "an unknown kind in a list": f"{STEP}    tool: [{{fetch: {{kind: htp}}}}]",
    "a tool without what it needs": f"{STEP}    tool: {{kind: http, method: GET}}",
    "a tool without a kind": f"{STEP}    tool: {{url: 'http://x'}}",
    "a step without a name": STEP.replace("step: start", CALL),
    "a workflow that is a mapping": "kind: Playbook\nmetadata: {name: x}\nworkflow: {step: start}",
    "a playbook of another kind": STEP.replace("kind: Playbook", "kind: Credential") + f"    {CALL}",
    "an input that is text": f"{STEP}    {CALL}\n    input: all",
    "a set that is a template": f"{STEP}    {CALL}\n    set: '{{{{ workload }}}}'",
    "a loop that is a template": f"{STEP}    {CALL}\n    loop: '{{{{ workload.items }}}}'",
    "a loop over nothing": f"{STEP}    {CALL}\n    loop: {{iterator: x}}",
    "an unknown mode of a loop": f"{STEP}    {CALL}\n    loop: {{in: [1], mode: paralel}}",
    "an unknown key in the spec of a loop": f"{STEP}    {CALL}\n    loop: {{in: [1], spec: {{max: 3}}}}",
    "a condition without a template": f"{STEP}    {CALL}\n    next: {{arcs: [{{step: end, when: x == 1}}]}}",
    "an arc to nowhere": f"{STEP}    {CALL}\n    next: {{arcs: [{{when: true}}]}}",
    "an unknown key of an arc": f"{STEP}    {CALL}\n    next: {{arcs: [{{step: end, wen: true}}]}}",
    "a choice without a way": f"{STEP}    {CALL}\n    next: [{{when: true}}]",
    "a timeout in no unit": f"{STEP}    {CALL}\n    timeout: 3 weeks",
    "a timeout below 0": f"{STEP}    {CALL}\n    timeout: -1",
    "a part of a timeout below 0": f"{STEP}    {CALL}\n    timeout: {{total: -0.5}}",
    "a limit below 0": f"{STEP}    {CALL}\n    loop: {{in: [1], max_in_flight: -1}}",
    "a retry below 0": f"{LEGACY}    tool: noop\n    retry: -1",
    "an unknown part of a timeout": f"{STEP}    {CALL}\n    timeout: {{write: 3}}",
    "an unknown action": f"{STEP}    tool: {{kind: noop, spec: {{policy: {{rules: [{{then: {{do: repeat}}}}]}}}}}}",
    "a rule without an action": f"{STEP}    tool: {{kind: noop, spec: {{policy: {{rules: [{{when: true}}]}}}}}}",
    "a jump to nowhere": f"{STEP}    tool: {{kind: noop, spec: {{policy: {{rules: [{{then: {{do: jump}}}}]}}}}}}",
    "a flag that is text": f"{STEP}    {CALL}\n    spec: {{policy: {{admit: {{rules: [{{then: {{allow: x}}}}]}}}}}}",
    "a legacy tool with an unknown field": f"{LEGACY}    tool: http\n    url: http://x\n    metod: GET",
    "a legacy tool without what it needs": f"{LEGACY}    tool: python",
    "an unknown legacy kind": f"{LEGACY}    tool: htp\n    url: http://x",
    "a retry that is text": f"{LEGACY}    tool: noop\n    retry: often",
    "an unknown key of a retry": f"{LEGACY}    tool: noop\n    retry: {{max_tries: 3}}",
    "a repetition without an end": f"{LEGACY}    tool: noop\n    retry: {{on_success: {{max_attempts: 3}}}}",
    "a sink that is text": f"{LEGACY}    tool: noop\n    sink: postgres",
    "a sink without a kind": f"{LEGACY}    tool: noop\n    sink: {{table: t}}",
    "an unknown key of a case rule": f"{STEP}    {CALL}\n    case: [{{when: true, thn: {{next: end}}}}]",
    "a case rule without an action": f"{STEP}    {CALL}\n    case: [{{when: true}}]",
    "an unknown action of a case rule": f"{STEP}    {CALL}\n    case: [{{when: true, then: {{nxt: end}}}}]",
    "a skip that is text": f"{STEP}    {CALL}\n    case: [{{when: true, then: {{skip: often}}}}]",
    "an unknown key of a repeated call": f"{STEP}    {CALL}\n    case: [{{when: true, then: {{retry: {{tries: 3}}}}}}]",
    "an unknown way to gather": f"{STEP}    {CALL}\n    case: [{{then: {{collect: {{from: a, into: b, mode: sum}}}}}}]",
    "an unknown case mode": f"{STEP}    {CALL}\n    case: [{{then: {{next: end}}}}]\n    spec: {{case_mode: both}}",
    "an unknown type": f"{LEGACY}    type: htp\n    url: http://x",
    "an unknown field beside a type": f"{LEGACY}    type: http\n    url: http://x\n    metod: GET",
    "an iterator without a task": f"{LEGACY}    type: iterator\n    collection: [1]",
    "an iterator over nothing": f"{LEGACY}    type: iterator\n    task: {{type: noop}}",
    "an unknown key of a call": f"{LEGACY}    call: {{type: workbook, name: x, wit: {{}}}}",
    "a call of nothing": f"{LEGACY}    call: {{with: {{}}}}",
    "a step that only saves with an unknown key": f"{LEGACY}    type: save\n    storage: postgres\n    tabel: t",
    "an unknown key of a sink": f"{LEGACY}    tool: noop\n    sink: {{tool: postgres, tabel: t}}",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_playbooks_with_a_wrong_shape_are_invalid_in_the_schema(text: str) -> None:
    assert compile_text(text).graph is None
    assert problems(SourceFile("playbook.yaml", text)) != []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_property_reports_what_it_is_for(dialect: Dialect) -> None:
    purposes: dict[str, str] = {
        f"{place}.{key}": property_schema["description"]
        for place, schema in definitions(dialect).items()
        for key, property_schema in schema.get("properties", {}).items()
        if property_schema is not True
    }
    assert {key: text for key, text in purposes.items() if not re.fullmatch(r"[A-Z].{10,}\.", text)} == {}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_two_places_have_the_same_name(dialect: Dialect) -> None:
    names = [place.name for place in models_of(dialect)]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_reference_leads_to_a_place(dialect: Dialect) -> None:
    names = re.findall(r'"\$ref": "#/definitions/(\w+)"', json.dumps(json_schema(dialect)))
    assert set(names) == set(definitions(dialect))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_pattern_has_a_description_of_what_it_expects(dialect: Dialect) -> None:
    values: list[Any] = [
        property_schema
        for place in definitions(dialect).values()
        for property_schema in place.get("properties", {}).values()
    ]
    asking = [value for value in values if value is not True and "pattern" in value]
    assert asking
    assert all(property_["patternErrorMessage"].startswith("expected ") for property_ in asking)


def test_an_older_name_names_its_successor() -> None:
    task = definitions("v10")["call"]["properties"]["credential"]
    assert task["deprecated"] is task["doNotSuggest"] is True
    assert '"auth"' in task["description"]
    assert "deprecated" not in definitions("legacy")["loop"]["properties"]["collection"]


def test_every_kind_of_tool_can_be_chosen() -> None:
    kinds = definitions("v10")["task"]["properties"]["kind"]["enum"]
    assert set(kinds) == {*KINDS, *PSEUDO_KINDS, "workbook"}
