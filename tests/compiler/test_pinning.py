"""What a playbook calls is pinned when it is submitted, with all that is called below (semantics.md 27)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_compiler.diagnostics import Severity
from noetl_compiler.graph import Graph
from noetl_compiler.graph.pinned import PinnedCalls
from noetl_compiler.language.tools import KINDS
from noetl_compiler.phases import compile_parsed
from noetl_compiler.pinning import PinningResult, pin_file, pin_graphs
from noetl_compiler.playbook_set import parse_file

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: book, path: {path}, version: '{version}'}}\n"
PLAIN = "workflow:\n  - step: start\n    tool: {kind: noop}\n"
NEEDS = "workload: {city: null}\nworkflow:\n  - step: start\n    tool: {kind: noop, message: '{{ workload.city }}'}\n"
BROKEN_WORKFLOW = "workflow:\n  - step: start\n    tol: 1\n"


def calling(*paths: str, more: str = "") -> str:
    steps = (f"  - step: call{n}\n    tool: {{kind: playbook, path: {path}{more}}}\n" for n, path in enumerate(paths))
    return "workflow:\n" + "".join(steps)


def write_books(folder: Path, books: dict[str, str]) -> Path:
    """``file@path@version`` -> body; the path is that of the file, and there is no version, unless they are given."""
    for name, body in books.items():
        file, _, version_text = name.partition("@")
        path, _, version = version_text.partition("@")
        place = folder / f"{file}.yaml"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(HEAD.format(path=path or file, version=version) + body)
    return folder


def pin_books(folder: Path, books: dict[str, str], root: str = "main") -> PinningResult:
    return pin_file(write_books(folder, books) / f"{root}.yaml", folder, KINDS)


def graph_of(folder: Path, name: str) -> Graph:
    graph = compile_parsed(parse_file(folder / f"{name}.yaml")).graph
    assert graph is not None
    return graph


def find_digest(folder: Path, calls: PinnedCalls, path: str, version: str = "", caller: str = "main") -> str | None:
    """The file of the playbook that a call means."""
    digests = calls.find(graph_of(folder, caller).digest, path, version)
    return None if digests is None else Path(digests.graph.source.file).stem


def lines_of(pinned: PinningResult) -> list[str]:
    errors = (
        diagnostic
        for result in pinned.problems
        for diagnostic in result.diagnostics
        if diagnostic.severity is Severity.ERROR
    )
    return [f"{Path(error.file).name}:{error.span.line}: {error.message}" for error in errors]


def test_only_what_is_called_is_pinned_and_all_that_is_called_below(tmp_path: Path) -> None:
    books = {"main": calling("a"), "a": calling("b", "main"), "b": PLAIN, "c": PLAIN}
    calls, problems = pin_books(tmp_path, books)
    assert problems == ()
    assert sorted(calls.paths) == ["a", "b", "main"]
    assert find_digest(tmp_path, calls, "a") == "a"
    assert find_digest(tmp_path, calls, "b", caller="a") == "b"
    assert find_digest(tmp_path, calls, "b") is None, "main itself does not call it"
    assert [graph.source.path for graph in calls.closure(graph_of(tmp_path, "main"))] == ["main", "a", "b"]


def test_the_newest_version_is_meant_unless_one_is_named(tmp_path: Path) -> None:
    books = {
        "main": calling("a"),
        "old": calling("a", more=", version: '1.9'"),
        "one@a@1.9": PLAIN,
        "two@a@1.10": PLAIN,
    }
    assert find_digest(tmp_path, pin_books(tmp_path, books).calls, "a") == "two"
    assert find_digest(tmp_path, pin_books(tmp_path, books, "old").calls, "a", "1.9", caller="old") == "one"


def test_two_callers_may_mean_different_files_by_one_name(tmp_path: Path) -> None:
    books = {
        "main": calling("x/caller", "y/caller"),
        "x/caller": calling("./child.yaml"),
        "x/child@first": PLAIN,
        "y/caller": calling("./child.yaml"),
        "y/child@second": PLAIN,
    }
    calls, problems = pin_books(tmp_path, books)
    assert problems == ()
    digests = [calls.find(graph_of(tmp_path, name).digest, "./child.yaml", "") for name in ("x/caller", "y/caller")]
    assert [playbook.graph.source.path for playbook in digests if playbook is not None] == ["first", "second"]


@pytest.mark.parametrize("name", ["deep/child", "deep/child.yaml", "/deep/child", "named", "./deep/child.yaml"])
def test_a_path_that_is_a_template_may_mean_any_playbook_that_compiles(tmp_path: Path, name: str) -> None:
    books = {"main": calling('"{{ workload.which }}"'), "deep/child@named": PLAIN, "broken": BROKEN_WORKFLOW}
    calls, problems = pin_books(tmp_path, books)
    assert problems == ()
    assert find_digest(tmp_path, calls, name) == "child"
    assert find_digest(tmp_path, calls, "broken") is None


@pytest.mark.parametrize(
    ("books", "expected"),
    [
        ({"main": calling("chil"), "child": PLAIN}, ['main.yaml:6: unknown playbook "chil"']),
        ({"main": calling("child"), "child": BROKEN_WORKFLOW}, ['main.yaml:6: the playbook "child" has errors']),
        ({"main": calling("child"), "child": NEEDS}, ['main.yaml:6: the call of "child" lacks the input "city"']),
        (
            {"main": calling("middle"), "middle": calling("chil"), "child": PLAIN},
            ['middle.yaml:6: unknown playbook "chil"'],
        ),
        (
            {"main": calling('"{{ workload.which }}"'), "other": calling("chil"), "child": PLAIN},
            [],
        ),
    ],
    ids=["unknown", "invalid", "missing input", "below", "of another"],
)
def test_a_wrong_call_is_an_error_at_its_place(tmp_path: Path, books: dict[str, str], expected: list[str]) -> None:
    assert lines_of(pin_books(tmp_path, books)) == expected


def test_graphs_are_called_by_their_names_and_paths(tmp_path: Path) -> None:
    write_books(tmp_path, {"main": calling("a", "b"), "child@a@2": PLAIN})
    calls = pin_graphs([("b", graph_of(tmp_path, "child"))])
    for path, version in (("a", ""), ("a", "2"), ("b", "")):
        assert find_digest(tmp_path, calls, path, version) == "child"
    assert find_digest(tmp_path, calls, "a", "1") is None
