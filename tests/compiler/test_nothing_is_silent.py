"""Nothing in a playbook is ignored silently: another value gives another graph, or the key has a finding."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from noetl_compiler import Result, compile_text
from noetl_compiler.graph import Json, encode
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, to_json
from noetl_compiler.reader import read, read_file
from noetl_compiler.source import SourceFile

CORPUS = Path(__file__).parent / "corpus" / "ok"

FOR_PEOPLE = frozenset({"apiVersion", "kind", "desc", "description", "profile", "requires"})
"""Keys that say something to people, to catalogs or to schedulers, and nothing of what happens."""

WITHOUT_DIFFERENCE = {
    "case_eval": {"workbook.0.tool.args.n"},  # the step that calls binds it otherwise
    "legacy_workbook_and_sinks": {"workbook.0.args.x"},
    "v10_output": {"workflow.0.loop.spec.policy.exec"},  # local and distributed mean the same here
}


class Leaf(NamedTuple):
    """A scalar, where it is in the document, and the lines of the keys that lead to it."""

    path: tuple[str | int, ...]
    value: Any
    lines: frozenset[int]

    @property
    def name(self) -> str:
        return ".".join(map(str, self.path))


def leaves(node: Node, path: tuple[str | int, ...] = (), lines: frozenset[int] = frozenset()) -> Iterator[Leaf]:
    match node:
        case MappingNode():
            for key, item in node.entries:
                yield from leaves(item, (*path, key.text), lines | {key.span.line})
        case SequenceNode():
            for index, item in enumerate(node.items):
                yield from leaves(item, (*path, index), lines | {item.span.line})
        case ScalarNode():
            yield Leaf(path, node.value, lines)


def changed(value: Any) -> Any:
    """Another value of the same sort, a template still being one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    text = str(value)
    return text.replace("{{", "{{ 0 or", 1) if "{{" in text else f"{text}x"


def written(document: Any) -> str:
    """The document with each key and each scalar on a line of its own."""
    return json.dumps(document, indent=1)


def with_value(document: Any, leaf: Leaf) -> Any:
    mutant = at = copy.deepcopy(document)
    for token in leaf.path[:-1]:
        at = at[token]
    at[leaf.path[-1]] = changed(leaf.value)
    return mutant


def placeless(text: bytes) -> Json:
    """A graph without the places in its text."""

    def entry(pairs: list[tuple[str, Json]]) -> Json:
        kept = {key: item for key, item in pairs if key not in ("digest", "span")}
        return {**kept, "templates": list(kept["templates"])} if "templates" in kept else kept

    return json.loads(text, object_pairs_hook=entry)


def meaning(result: Result) -> Any:
    """The graph of a playbook and its diagnostics."""
    graph = placeless(encode(result.graph)) if result.graph else None
    return graph, [(diagnostic.code, diagnostic.message) for diagnostic in result.diagnostics]


def is_for_people(leaf: Leaf) -> bool:
    return bool(FOR_PEOPLE & set(leaf.path)) or leaf.path[:2] == ("executor", "version")


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.yaml")), ids=lambda path: path.stem)
def test_another_value_changes_the_graph(path: Path) -> None:
    original, _ = read(read_file(path)[0])
    assert original is not None
    document = to_json(original)
    result = compile_text(written(document))
    root, _ = read(SourceFile("", written(document)))
    assert root is not None
    diagnostics = {diagnostic.span.line for diagnostic in result.diagnostics}
    silent = {
        leaf.name
        for leaf in leaves(root)
        if leaf.value is not None
        and not is_for_people(leaf)
        and not diagnostics & leaf.lines
        and meaning(compile_text(written(with_value(document, leaf)))) == meaning(result)
    }
    assert silent == WITHOUT_DIFFERENCE.get(path.stem, set())
