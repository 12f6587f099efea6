"""A key that is added to the table of keys is known to every phase: the diffs of dev/decisions/0043 show it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.page_diffs import answers_after, diffs_of

ENTRY, USE = diffs_of("dev/decisions/0043-keys-of-v10-in-one-table.md")

ASK = """
import json
from noetl_compiler import compile_text
from noetl_compiler.migration import migrate
from noetl_compiler.preview import explain
from noetl_compiler.schema import json_schema
from noetl_compiler.schema.lookup import UnknownPathError, lookup
from noetl_compiler.source import SourceFile

HEAD = "apiVersion: noetl.io/v2\\nkind: Playbook\\nmetadata: {name: x}\\nworkflow:\\n  - step: start\\n"
TOOL = "    tool: {kind: noop}\\n"

def messages_of(spec):
    found = compile_text(f"{HEAD}    spec: {spec}\\n{TOOL}").diagnostics
    return [f"{one.code.value} {one.message} ({one.hint})" for one in found]

def explained(path):
    try:
        return lookup(path)
    except UnknownPathError as error:
        return str(error)

migration = migrate(SourceFile("x.yaml", HEAD + '''    timeout: 5
    when: "{{ workload.on }}"
    spec: {responsible: payments}
''' + TOOL))
graph = compile_text(f"{HEAD}    spec: {{owner: payments}}\\n{TOOL}").graph
print(json.dumps({
    "schema": json_schema()["definitions"]["step_spec"]["properties"],
    "right": messages_of("{owner: payments}"),
    "wrong": messages_of("{owner: [payments]}"),
    "misspelt": messages_of("{ownr: payments}"),
    "entry": explained("step.spec.owner"),
    "misspelt entry": explained("step.spec.ownr"),
    "migrated": migration.text,
    "notes": [note.message for note in migration.notes],
    "step": explain(graph, "start"),
}))
"""


def answers_of(root: Path, *diffs: str) -> dict[str, Any]:
    """What a copy of the compiler says of the key ``owner``, after these diffs."""
    answers: dict[str, Any] = answers_after(root, ["compiler", "dev/extensions.md"], ASK, *diffs)
    return answers


@pytest.fixture(scope="module")
def new_key(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """With the entry in the table and nothing else."""
    return answers_of(tmp_path_factory.mktemp("entered"), ENTRY)


def test_the_schema_describes_it(new_key: dict[str, Any]) -> None:
    description = new_key["schema"]
    assert description["owner"]["description"] == "Who answers for the step, for people who look at a run."
    assert description["responsible"]["deprecated"]


def test_the_front_end_reads_it_and_checks_its_type(new_key: dict[str, Any]) -> None:
    assert new_key["right"] == []
    assert new_key["wrong"] == ['NT103 "owner" must be a string, not a list ()']


def test_a_misspelt_key_is_reported_with_the_right_one(new_key: dict[str, Any]) -> None:
    assert new_key["misspelt"] == ['NT102 unknown key "ownr" in the spec of a step (did you mean "owner"?)']


def test_it_is_explained(new_key: dict[str, Any]) -> None:
    path, about, value, *_ = new_key["entry"]
    assert (path, value) == ("step.spec.owner", "a string")
    assert about.startswith("Who answers for the step")
    assert new_key["misspelt entry"] == 'unknown key "ownr" in "step.spec": did you mean "owner"?'


def test_migrate_keeps_it_in_its_place_under_its_name(new_key: dict[str, Any]) -> None:
    spec = re.search(r"spec:\n((?: {6}.*\n)+)", new_key["migrated"])
    assert spec is not None
    assert re.findall(r"^ {6}(\w+):", spec[1], re.MULTILINE) == ["timeout", "owner", "policy"]
    note = 'v10 cannot express who answers for a step: it is written as the extension "step.spec.owner"'
    assert note in new_key["notes"]


def test_only_the_code_that_uses_it_changes(tmp_path: Path, new_key: dict[str, Any]) -> None:
    assert "payments answers for it" not in new_key["step"]
    assert "payments answers for it" in answers_of(tmp_path, ENTRY, USE)["step"]
