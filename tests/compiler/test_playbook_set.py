"""Playbooks that call each other: what is found across files, at which place."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from noetl_compiler import phases
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, one_line, render
from noetl_compiler.playbook_set import parse_file, playbook_files, read_folder, with_call_diagnostics
from noetl_compiler.source import SourceFile

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {path}, path: {path}}}\n"
CALL = """workflow:
  - step: start
    tool:
      kind: playbook
      path: {path}
      input: {input}
"""
CHILD = """workload: {days: 3}
workflow:
  - step: start
    tool: {kind: noop, message: "{{ workload.city }} {{ workload.days }} {{ workload.unit | default('C') }}"}
"""
PLAIN = "workflow:\n  - step: start\n    tool: {kind: noop, message: town}\n"
WHOLE = "workflow:\n  - step: start\n    tool: {kind: noop, message: '{{ workload }}'}\n"
NULL = "workload: {city: null}\nworkflow:\n  - step: start\n    tool: {kind: noop, message: '{{ workload.city }}'}\n"
BROKEN_WORKFLOW = "workflow:\n  - step: start\n    tol: 1\n"
UNREADABLE = "workflow: [\n"


def calling(path: str, arguments: str = "{city: Oslo}") -> str:
    return CALL.replace("{path}", path).replace("{input}", arguments)


def write_books(folder: Path, books: dict[str, str]) -> Path:
    for path, body in books.items():
        file = folder / f"{path}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(HEAD.format(path=path) + body)
    (folder / "credentials.yaml").write_text("pg: {type: postgres}\n")
    return folder


def found_in(folder: Path, name: str = "main") -> list[Diagnostic]:
    """What the catalog finds in one of its files."""
    checked_diagnostics = with_call_diagnostics(parse_file(folder / f"{name}.yaml"), read_folder(folder))
    return [diagnostic for diagnostic in checked_diagnostics.diagnostics if diagnostic.code.value.startswith("NT6")]


def lines_of(diagnostics: Iterable[Diagnostic]) -> list[str]:
    return [f"{diagnostic.severity.value}[{diagnostic.code.value}]: {diagnostic.message}" for diagnostic in diagnostics]


@pytest.mark.parametrize(
    ("books", "expected"),
    [
        ({"main": calling("child"), "child": CHILD}, []),
        ({"main": calling("chil"), "child": CHILD}, ['error[NT601]: unknown playbook "chil"']),
        (
            {"main": calling("child", "{}"), "child": CHILD},
            ['warning[NT604]: the call of "child" lacks the input "city"'],
        ),
        (
            {"main": calling("child", "{}"), "child": NULL},
            ['warning[NT604]: the call of "child" lacks the input "city"'],
        ),
        ({"main": calling("child", '"{{ workload }}"'), "child": CHILD}, []),
        ({"main": calling('"{{ workload.which }}"'), "child": CHILD}, []),
        ({"main": calling("child"), "child": BROKEN_WORKFLOW}, ['error[NT602]: the playbook "child" has errors']),
        (
            {"main": calling("main", "{}")},
            ['warning[NT603]: recursive call: "main" -> "main"'],
        ),
        (
            {"main": calling("a", "{}"), "a": calling("b", "{}"), "b": calling("main", "{}")},
            ['warning[NT603]: recursive call: "main" -> "a" -> "b" -> "main"'],
        ),
        ({"main": calling("a", "{}"), "a": calling("b", "{}"), "b": calling("a", "{}")}, []),
        (
            {"main": calling("child", "{city: Oslo, dais: 2}"), "child": CHILD},
            ['warning[NT606]: the call of "child" passes "dais", which it does not use'],
        ),
        ({"main": calling("child", "{town: Oslo}"), "child": PLAIN}, []),
        ({"main": calling("child", "{anything: 1}"), "child": WHOLE}, []),
    ],
)
def test_calls_are_checked_across_files(tmp_path: Path, books: dict[str, str], expected: list[str]) -> None:
    diagnostics = found_in(write_books(tmp_path, books))
    assert lines_of(diagnostics) == expected
    assert {(diagnostic.span.line, diagnostic.span.col) for diagnostic in diagnostics} <= {(8, 13)}


def test_names_that_a_playbook_binds_itself_are_not_missing_inputs(tmp_path: Path) -> None:
    loop = "workflow:\n  - step: start\n    loop: {in: [{title: a}], iterator: work}\n"
    child = f"{loop}    tool: {{kind: noop, message: '{{{{ work.title }}}}'}}\n"
    assert lines_of(found_in(write_books(tmp_path, {"main": calling("child", "{}"), "child": child}))) == []


def test_a_misspelt_name_has_a_hint(tmp_path: Path) -> None:
    books = {
        "main": calling("chid", "{}")
        + "  - step: two\n    tool: {kind: playbook, path: child, input: {city: 1, dais: 2}}\n"
    }
    unknown_call, unused_call = found_in(write_books(tmp_path, {**books, "child": CHILD}))
    assert unknown_call.hint == 'did you mean "child"?'
    assert unused_call.hint == 'did you mean "days"?'


def test_each_call_of_a_cycle_is_a_place(tmp_path: Path) -> None:
    books = {"main": calling("a", "{}"), "a": calling("b", "{}"), "b": calling("main", "{}")}
    (diagnostic,) = found_in(write_books(tmp_path, books))
    assert [
        (Path(diagnostic.file).name, diagnostic.span.line, diagnostic.message) for diagnostic in diagnostic.related
    ] == [
        ("a.yaml", 8, '"a" calls "b"'),
        ("b.yaml", 8, '"b" calls "main"'),
    ]
    text = render(diagnostic, SourceFile(str(tmp_path / "main.yaml"), (tmp_path / "main.yaml").read_text()))
    assert f'{tmp_path / "a.yaml"}:8:13: note: "a" calls "b"\n' in text


@pytest.mark.parametrize("path", ["parts/child", "parts/child.yaml", "/parts/child.yaml", "../parts/child.yaml"])
def test_a_file_is_called_by_its_name(tmp_path: Path, path: str) -> None:
    write_books(tmp_path, {"callers/main": calling(path)})
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/child.yaml").write_text(HEAD.format(path="other") + CHILD)
    assert found_in(tmp_path, "callers/main") == []


@pytest.mark.parametrize(
    "call",
    [
        "type: playbook\n    path: child\n    with: {city: Oslo, dais: 1}\n",
        "call: {type: playbook, path: child, with: {city: Oslo, dais: 1}}\n",
        "tool: playbook\n    path: child\n    args: {city: Oslo, dais: 1}\n",
        "tool: {kind: playbook, path: child, args: {city: Oslo, dais: 1}}\n    case: [{then: {next: end}}]\n",
        "tool: [{name: ask, kind: playbook, path: child, input: {dais: 1}}]\n    input: {city: Oslo, days: 1}\n",
    ],
)
def test_every_dialect_calls_playbooks(tmp_path: Path, call: str) -> None:
    main = f"workflow:\n  - step: start\n    {call}  - step: end\n"
    diagnostics = found_in(write_books(tmp_path, {"main": main, "child": CHILD}))
    assert lines_of(diagnostics) == ['warning[NT606]: the call of "child" passes "dais", which it does not use']


def test_the_newest_version_is_meant_unless_the_call_names_one(tmp_path: Path) -> None:
    for version, body in (("1.9", CHILD), ("1.10", PLAIN)):
        head = f"metadata: {{name: child, path: child, version: '{version}'}}\n"
        (tmp_path / f"child-{version}.yaml").write_text(head + body)
    newest, older, missing = (
        calling("child", "{}"),
        calling("child\n      version: '1.9'", "{}"),
        calling("child\n      version: '3'"),
    )
    assert found_in(write_books(tmp_path, {"main": newest})) == []
    assert [diagnostic.code for diagnostic in found_in(write_books(tmp_path, {"main": older}))] == [Code.MISSING_INPUT]
    (unknown,) = found_in(write_books(tmp_path, {"main": missing}))
    assert (unknown.message, unknown.hint) == (
        'the playbook "child" has no version "3"',
        'it has "1.9", "1.10"',
    )


def test_two_files_with_one_path_are_reported_in_both(tmp_path: Path) -> None:
    write_books(tmp_path, {"main": PLAIN})
    (tmp_path / "copy.yaml").write_text(HEAD.format(path="main") + PLAIN)
    for name, other in (("main", "copy.yaml"), ("copy", "main.yaml")):
        (diagnostic,) = found_in(tmp_path, name)
        assert (diagnostic.code, diagnostic.span.line) == (Code.DUPLICATE_PLAYBOOK, 3)
        assert [Path(related_place.file).name for related_place in diagnostic.related] == [other]


def test_a_broken_playbook_is_reported_once_a_file(tmp_path: Path) -> None:
    second = "  - step: two\n    tool: {kind: playbook, path: child}\n"
    diagnostics = found_in(write_books(tmp_path, {"main": calling("child") + second, "child": BROKEN_WORKFLOW}))
    assert [diagnostic.code for diagnostic in diagnostics] == [Code.INVALID_PLAYBOOK]


def test_a_file_that_cannot_be_read_may_be_the_one_that_is_missing(tmp_path: Path) -> None:
    (diagnostic,) = found_in(write_books(tmp_path, {"main": calling("a/child"), "broken": UNREADABLE}))
    assert one_line(diagnostic).endswith('error[NT601]: unknown playbook "a/child"')
    assert diagnostic.hint == "1 of the files cannot be read; run noetl compile on the folder to see why"


def test_compiled_playbooks_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_books(tmp_path, {f"book{number}": calling(f"book{number + 1}", "{}") for number in range(5)})
    parsed = [parse_file(file) for file in playbook_files(folder)]
    monkeypatch.setattr(phases, "parse_playbook", None)
    monkeypatch.setattr("noetl_compiler.playbook_set.parse_playbook", None)
    catalog = read_folder(folder, parsed)
    assert set(catalog.paths) == {f"book{number}" for number in range(5)}
