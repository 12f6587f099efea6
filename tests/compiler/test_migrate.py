"""Playbooks rewritten in v10: the same graph, the comments in their places, and no change the second time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from noetl_compiler import compile_text
from noetl_compiler.diagnostics import Severity
from noetl_compiler.graph import Graph
from noetl_compiler.migration import Migration, migrate, without_spans
from noetl_compiler.nodes import to_json
from noetl_compiler.reader import read
from noetl_compiler.schema import json_schema
from noetl_compiler.source import SourceFile

FOLDER = Path(__file__).parent
MIGRATIONS = FOLDER / "migrations"
CORPUS = FOLDER.parents[1].parent / "shared" / "corpus"

V10: Any = Draft7Validator(json_schema("v10"))

Golden = Callable[[Path, str], None]


def migrate_text(text: str) -> Migration:
    return migrate(SourceFile("playbook.yaml", text))


def graph_of(text: str) -> Graph:
    graph = compile_text(text).graph
    assert graph is not None
    return without_spans(graph)


def unmigrated_files() -> list[Path]:
    return [path for path in sorted(MIGRATIONS.glob("*.yaml")) if not path.stem.endswith(".v10")]


def own_playbooks() -> list[Path]:
    return [*unmigrated_files(), *sorted((FOLDER / "corpus" / "ok").glob("*.yaml"))]


def against_schema(text: str) -> list[str]:
    root, _ = read(SourceFile("playbook.yaml", text))
    assert root is not None
    return [error.message for error in V10.iter_errors(to_json(root))]


def assert_survives(text: str) -> None:
    result = migrate_text(text)
    assert result.defect == ""
    assert result.text is not None
    assert against_schema(result.text) == []
    assert graph_of(result.text) == graph_of(text)
    assert migrate_text(result.text).text == result.text


@pytest.mark.parametrize("path", unmigrated_files(), ids=lambda path: path.stem)
def test_a_playbook_has_its_v10_form(path: Path, golden: Golden) -> None:
    result = migrate_text(path.read_text(encoding="utf-8"))
    assert result.text is not None
    golden(path.with_suffix(".v10.yaml"), result.text)
    notes = [f"{note.span.line}:{note.span.col}: {note.message}" for note in result.notes]
    golden(path.with_suffix(".notes"), "".join(f"{line}\n" for line in notes))


@pytest.mark.parametrize("path", unmigrated_files(), ids=lambda path: path.stem)
def test_a_v10_playbook_that_uses_an_extension_needs_no_note_about_it(path: Path) -> None:
    result = migrate_text(path.with_suffix(".v10.yaml").read_text(encoding="utf-8"))
    assert [note.message for note in result.notes if "extension" in note.message or "dialect" in note.message] == []


def test_no_defaults_are_added_to_a_v10_playbook_with_extensions() -> None:
    text = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: pages, path: tests/pages}
workflow:
  - step: start
    tool:
      kind: http
      url: http://127.0.0.1:1/pages

      spec:
        policy:
          rules:
            - when: "{{ output.data.more }}"
              then:
                do: again

                patch: {page: 2}
                collect: {path: items}
            - else:
                then: {do: continue}
      sink: {kind: postgres, auth: pg, table: pages}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop}}
"""
    result = migrate_text(text)
    assert (result.text, result.notes) == (text, ())


@pytest.mark.parametrize("path", own_playbooks(), ids=lambda path: path.stem)
def test_the_graph_survives_and_a_second_time_changes_nothing(path: Path) -> None:
    assert_survives(path.read_text(encoding="utf-8"))


@pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not here")
def test_keys_of_upstream_survive_migration() -> None:
    manifest = json.loads((CORPUS / "manifest.json").read_text(encoding="utf-8"))
    texts = {(CORPUS / entry["path"]).read_text(encoding="utf-8"): entry["path"] for entry in manifest}
    results = {path: migrate_text(text) for text, path in texts.items()}
    compiled_results = {path: result for path, result in results.items() if result.compilation.graph is not None}
    assert {path: result.defect for path, result in compiled_results.items() if result.defect} == {}
    changed_paths = {
        path for path, result in compiled_results.items() if migrate_text(result.text or "").text != result.text
    }
    assert changed_paths == set()
    assert len(compiled_results) > 300
    assert {
        path: problems for path, result in compiled_results.items() if (problems := against_schema(result.text or ""))
    } == {}


def test_a_playbook_with_errors_is_not_written() -> None:
    result = migrate_text("metadata: {name: x}\nworkflow:\n  - step: start\n    next: nowhere\n")
    assert result.text is None
    assert Severity.ERROR in {diagnostic.severity for diagnostic in result.compilation.diagnostics}


@pytest.mark.parametrize(
    ("versions", "kept_text"),
    [("noetl.io/v10", "noetl.io/v10"), ("noetl.io/v2", "noetl.io/v2"), ("noetl.io/v1", "noetl.io/v2")],
)
@pytest.mark.parametrize("steps", ["[{step: start, tool: {kind: noop}}]", "[{step: a, next: b}, {step: b}]"])
def test_the_version_of_today_stays_as_it_was_written(versions: str, kept_text: str, steps: str) -> None:
    text = migrate_text(f"apiVersion: {versions}\nkind: Playbook\nmetadata: {{name: x}}\nworkflow: {steps}\n").text
    assert text is not None
    assert text.startswith(f"apiVersion: {kept_text}\n")


def test_defaults_are_not_added_to_a_playbook_in_v10() -> None:
    text = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: x}

workflow:
  - step: start
    tool:
      kind: http
      url: https://api.example.com
      spec:
        policy:
          on_unmatched: fail
          rules:
            - when: "{{ output.error.retryable }}"
              then: {do: retry, delay: 1}
    next:
      arcs:
        - {step: end, when: "{{ output.data.ready }}"}
        - {step: wait}

  - step: wait
    tool: {kind: noop}

  - step: end
    tool: {kind: noop}
"""
    assert migrate_text(text).text == text
    explicit = text.replace("{do: retry,", "{do: retry, attempts: 3,").replace(
        "      arcs", "      spec: {mode: exclusive}\n      arcs"
    )
    assert migrate_text(explicit).text == explicit


def test_a_credential_is_not_taken_for_an_alias_of_what_it_holds() -> None:
    task = "tool: {kind: postgres, command: SELECT 1, auth: {pg: {vault: {path: a}}}}"
    assert_survives(f"metadata: {{name: x}}\nworkflow:\n  - step: start\n    {task}\n")


def test_a_name_that_is_set_twice_is_set_in_turn() -> None:
    text = (
        "metadata: {name: x}\nworkflow:\n  - step: start\n    tool: {kind: noop}\n    set: {a: 1}\n    vars: {a: 2}\n"
    )
    assert_survives(text)
    assert "- {ctx.a: 1}\n      - {ctx.a: 2}" in (migrate_text(text).text or "")


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (
            "next: [{when: '{{ workload.x }} == go', then: [{step: end}]}]",
            '"{{ workload.x }} == go" is written as "{{ (workload.x) | string == \'go\' }}"',
        ),
        ("next: {spec: {mode: exclusive}, arcs: [{step: end, when: '{{ workload.x }}'}]}", ""),
    ],
)
def test_a_template_that_migration_rewords_is_reported(step: str, expected: str) -> None:
    head = "metadata: {name: x}\nworkload: {x: go}\nworkflow:\n  - step: start\n    tool: {kind: noop}\n"
    text = f"{head}    {step}\n  - step: end\n"
    notes = [note for note in migrate_text(text).notes if "is written as" in note.message]
    assert [note.message for note in notes] == ([expected] if expected else [])
    assert {note.span.line for note in notes} <= {6}


def test_the_changed_part_of_a_long_text_is_reported() -> None:
    script = f"echo {'a ' * 100}; docker images --format '{{{{.ID}}}}' {'b ' * 100}"
    head = "metadata: {name: x}\nworkflow:\n  - step: start\n"
    text = f'{head}    tool: {{kind: shell, args: {{a: 1}}, cmds: ["{script}"]}}\n'
    (note,) = [note for note in migrate_text(text).notes if "is written as" in note.message]
    assert len(note.message) < 300
    assert "{{.ID}}" in note.message


def test_notes_about_the_old_form_alone_are_reported() -> None:
    task = "tool: http\n    url: http://x\n    retry: {max_attempts: 2, retry_on: [timeout]}\n"
    notes = migrate_text(f"metadata: {{name: x}}\nworkflow:\n  - step: start\n    {task}").notes
    assert [note.message for note in notes if note.message.startswith("left out")] == [
        'left out: "retry_on" has no effect in a retry'
    ]


def test_a_name_that_sounds_like_a_setting_is_set_once() -> None:
    step = "- {step: start, tool: {kind: noop}, next: {arcs: [{step: end, set: {spec: {mode: x}}}]}}"
    assert_survives(f"metadata: {{name: x}}\nworkflow:\n  {step}\n")
