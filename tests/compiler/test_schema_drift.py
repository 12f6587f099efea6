"""The schemas and the front ends know the same keys and the same words, both ways."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from noetl_compiler import dialects
from noetl_compiler.codes import Code
from noetl_compiler.dialects import parse
from noetl_compiler.dialects.detect import detect
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.graph import Span
from noetl_compiler.nodes import MappingNode, Node, SequenceNode, plain
from noetl_compiler.reader import read, read_file
from noetl_compiler.report import Report
from noetl_compiler.schema import DIALECTS, json_schema
from noetl_compiler.source import SourceFile
from noetl_compiler.syntax import Dialect
from tests.compiler.schema_walk import Path as Place
from tests.compiler.schema_walk import Samples, Walk

CORPUS = Path(__file__).parent / "corpus"
WALKS = {dialect: Walk(json_schema(dialect)) for dialect in DIALECTS}


def places(node: Node, path: Place = ()) -> Iterator[tuple[Span, Place]]:
    """Where each mapping of a document stands."""
    if isinstance(node, MappingNode):
        yield node.span, path
        for key, item in node.entries:
            yield from places(item, (*path, key.text))
    elif isinstance(node, SequenceNode):
        for index, item in enumerate(node.items):
            yield from places(item, (*path, index))


class Asked:
    """What the front ends ask for, and which words they take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: set[tuple[Span, str]] = set()
        self.words: dict[tuple[Span, str], set[str]] = {}
        node_of, ignore, choice = Fields.node_of, Fields.ignore, Fields.choice

        def asking(fields: Fields, *keys: str) -> Node | None:
            self.keys |= {(fields.span, key) for key in keys}
            return node_of(fields, *keys)

        def ignoring(fields: Fields, *keys: str, why: str) -> None:
            self.keys |= {(fields.span, key) for key in keys}
            ignore(fields, *keys, why=why)

        def choosing(fields: Fields, key: str, meanings: Mapping[str, Any]) -> Any:
            self.words[fields.span, key] = set(meanings)
            return choice(fields, key, meanings)

        monkeypatch.setattr(Fields, "node_of", asking)
        monkeypatch.setattr(Fields, "ignore", ignoring)
        monkeypatch.setattr(Fields, "choice", choosing)


@pytest.mark.parametrize("path", sorted((CORPUS / "ok").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_a_front_end_asks_for_is_in_the_schema(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, _ = read_file(path)
    root, _ = read(source)
    assert isinstance(root, MappingNode)
    dialect = detect(root, Report(source))
    if dialect not in DIALECTS:
        pytest.skip("there is no schema of this dialect")
    walk, document, where = WALKS[dialect], plain(root), dict(places(root))
    asked = Asked(monkeypatch)
    parse(root, Report(source))
    told = {span: properties(walk, where[span], document) for span in {span for span, _ in asked.keys}}
    assert {f"{where[span]} {key}" for span, key in asked.keys if key not in told[span]} == set()
    for (span, key), meant in asked.words.items():
        words = {word for one in told[span][key] for word in walk.words(one) if word is not None}
        assert words == meant, (where[span], key)


def properties(walk: Walk, place: Place, document: Any) -> dict[str, list[Any]]:
    """The keys that the schema knows at a place, each with all it says of them."""
    found: dict[str, list[Any]] = {}
    for one in walk.alternatives(walk.at(place, document)):
        for key, told in one.get("properties", {}).items():
            found.setdefault(key, []).append(told)
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_in_the_schema_is_known_to_the_front_end(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    def detected(root: MappingNode, report: Report) -> Dialect:
        return dialect

    monkeypatch.setattr(dialects, "detect", detected)
    refused = {name: found for name, playbook in Samples(json_schema(dialect)).playbooks() if (found := told(playbook))}
    assert refused == {}


def told(playbook: Any) -> list[str]:
    source = SourceFile("playbook.yaml", json.dumps(playbook))
    root, _ = read(source)
    assert isinstance(root, MappingNode)
    report = Report(source)
    parse(root, report)
    return [found.message for found in report.found if found.code in (Code.UNKNOWN_KEY, Code.WRONG_TYPE)]
