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
from noetl_compiler.language.words import Dialect
from noetl_compiler.nodes import MappingNode, Node, SequenceNode, to_json
from noetl_compiler.reader import read, read_file
from noetl_compiler.report import Report
from noetl_compiler.schema import DIALECTS, json_schema
from noetl_compiler.source import SourceFile
from tests.compiler.schema_walk import STRANGER, Samples, Schema, Walk, children
from tests.compiler.schema_walk import Path as Place

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


class AskedModels:
    """What the front ends ask for, and which words they take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: set[tuple[Span, str]] = set()
        self.words: dict[tuple[Span, str], set[str]] = {}
        self._read_as: dict[Span, str] = {}
        node_of, ignore, choice = Fields.node_of, Fields.ignore, Fields.choice

        def asking(fields: Fields, *keys: str) -> Node | None:
            self._ask(fields, keys)
            return node_of(fields, *keys)

        def ignoring(fields: Fields, *keys: str, reason: str) -> None:
            self._ask(fields, keys)
            ignore(fields, *keys, reason=reason)

        def choosing(fields: Fields, key: str, meanings: Mapping[str, Any]) -> Any:
            if self._ask(fields, (key,)):
                self.words[fields.span, key] = set(meanings)
            return choice(fields, key, meanings)

        monkeypatch.setattr(Fields, "node_of", asking)
        monkeypatch.setattr(Fields, "ignore", ignoring)
        monkeypatch.setattr(Fields, "choice", choosing)

    def _ask(self, fields: Fields, keys: tuple[str, ...]) -> bool:
        """A mapping is read as one thing; what is read as another is only a part of its keys."""
        is_whole = self._read_as.setdefault(fields.span, fields.description) == fields.description
        self.keys |= {(fields.span, key) for key in keys if is_whole}
        return is_whole


@pytest.mark.parametrize("path", sorted((CORPUS / "ok").glob("*.yaml")), ids=lambda path: path.stem)
def test_keys_that_a_front_end_reads_are_in_the_schema(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, _ = read_file(path)
    root, _ = read(source)
    assert isinstance(root, MappingNode)
    walk, document, place_of = WALKS[detect(root, Report(source))], to_json(root), dict(places(root))
    asked_models = AskedModels(monkeypatch)
    parse(root, Report(source))
    schemas_at = {span: walk.at(place_of[span], document) for span in {span for span, _ in asked_models.keys}}
    missing = {
        f"{place_of[span]} {key}" for span, key in asked_models.keys if not is_allowed(walk, schemas_at[span], key)
    }
    assert missing == set()
    for (span, key), meant in asked_models.words.items():
        words = {word for schema in schemas_at[span] for value in children(schema, key) for word in walk.words(value)}
        assert words - {None} == meant, (place_of[span], key)


def is_allowed(walk: Walk, schemas: list[Schema], key: str) -> bool:
    if all(schema.get("additionalProperties", True) is not False for schema in schemas):
        return True
    return any(key in alternative.get("properties", {}) for alternative in walk.alternatives(schemas))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_front_end_reads_every_key_of_the_schema(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = Samples(json_schema(dialect))
    detect_always(dialect, monkeypatch)
    known_samples = (sample for sample in samples.playbooks() if not sample[0].endswith(STRANGER))
    assert {name: findings for name, playbook in known_samples if (findings := findings_of(playbook))} == {}
    places: dict[str, Any] = samples.walk.schema["definitions"]
    assert {name for name, place in places.items() if place.get("additionalProperties") is False} <= samples.seen_refs


@pytest.mark.parametrize("dialect", DIALECTS)
def test_unknown_keys_are_refused_where_the_front_end_does(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = Samples(json_schema(dialect))
    detect_always(dialect, monkeypatch)
    invalid = {
        name
        for name, playbook in samples.playbooks()
        if "." not in name and not samples.walk.validator.is_valid(playbook)
    }
    assert invalid == set()
    samples.seen_refs.clear()
    strange = ((name, playbook) for name, playbook in samples.playbooks() if name.endswith(STRANGER))
    verdicts = {
        name: (bool(findings_of(playbook)), not samples.walk.validator.is_valid(playbook)) for name, playbook in strange
    }
    assert {name for name, (by_front_end, by_schema) in verdicts.items() if by_front_end != by_schema} <= LEFT_OPEN


LEFT_OPEN = {f"tool_with_loop.{STRANGER}"}
"""A tool that is written with the loop of its step gets a warning; its other keys are not worth a schema."""


def detect_always(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    def detect_dialect(root: MappingNode, report: Report) -> Dialect:
        return dialect

    monkeypatch.setattr(dialects, "detect", detect_dialect)


def findings_of(playbook: Any) -> list[str]:
    source = SourceFile("playbook.yaml", json.dumps(playbook))
    root, _ = read(source)
    assert isinstance(root, MappingNode)
    report = Report(source)
    parse(root, report)
    return [
        diagnostic.message
        for diagnostic in report.diagnostics
        if diagnostic.code in (Code.UNKNOWN_KEY, Code.WRONG_TYPE)
    ]
