"""Nothing in a playbook is ignored silently: another value gives another graph, or the key has a diagnostic."""

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

WITHOUT_EFFECT = frozenset({"apiVersion", "kind", "desc", "description", "profile", "requires"})
"""Keys for readers, catalogs or schedulers, which change nothing in a run."""

WITHOUT_DIFFERENCE = {
    "case_eval": {"workbook.0.tool.args.n"},  # the calling step sets another value
    "legacy_workbook_and_sinks": {"workbook.0.args.x"},
    "v10_output": {"workflow.0.loop.spec.policy.exec"},  # local and distributed have the same effect
}


class Leaf(NamedTuple):
    """A scalar, its path in the document, and the lines of the keys on that path."""

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


def change(value: Any) -> Any:
    """Another value of the same type; a template stays a template."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    text = str(value)
    return text.replace("{{", "{{ 0 or", 1) if "{{" in text else f"{text}x"


def text_of(document: Any) -> str:
    """The text of the document, with each key and each scalar on its own line."""
    return json.dumps(document, indent=1)


def with_value(document: Any, leaf: Leaf) -> Any:
    mutant = parent = copy.deepcopy(document)
    for token in leaf.path[:-1]:
        parent = parent[token]
    parent[leaf.path[-1]] = change(leaf.value)
    return mutant


def graph_without_places(text: bytes) -> Json:
    """A graph without its digest and its positions in the source."""

    def entry(pairs: list[tuple[str, Json]]) -> Json:
        entries = {key: item for key, item in pairs if key not in ("digest", "span")}
        return {**entries, "templates": list(entries["templates"])} if "templates" in entries else entries

    return json.loads(text, object_pairs_hook=entry)


def meaning(result: Result) -> Any:
    """The graph of a playbook and its diagnostics."""
    graph = graph_without_places(encode(result.graph)) if result.graph else None
    return graph, [(diagnostic.code, diagnostic.message) for diagnostic in result.diagnostics]


def has_no_effect(leaf: Leaf) -> bool:
    return bool(WITHOUT_EFFECT & set(leaf.path)) or leaf.path[:2] == ("executor", "version")


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.yaml")), ids=lambda path: path.stem)
def test_another_value_changes_the_graph(path: Path) -> None:
    original, _ = read(read_file(path)[0])
    assert original is not None
    document = to_json(original)
    result = compile_text(text_of(document))
    root, _ = read(SourceFile("", text_of(document)))
    assert root is not None
    reported_lines = {diagnostic.span.line for diagnostic in result.diagnostics}
    silent = {
        leaf.name
        for leaf in leaves(root)
        if leaf.value is not None
        and not has_no_effect(leaf)
        and not reported_lines & leaf.lines
        and meaning(compile_text(text_of(with_value(document, leaf)))) == meaning(result)
    }
    assert silent == WITHOUT_DIFFERENCE.get(path.stem, set())
