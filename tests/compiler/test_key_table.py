"""The table of keys is consistent, and readers check the types that it declares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from noetl_compiler.codes import Code
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.language.construct import Construct, Key
from noetl_compiler.language.constructs import CONSTRUCTS, nested_construct
from noetl_compiler.language.constructs.loops import LOOP_SPEC
from noetl_compiler.language.constructs.policies import CIRCUIT
from noetl_compiler.language.constructs.steps import STEP, STEP_SPEC
from noetl_compiler.language.value_types import Either, ListOf, Nested, ValueType
from noetl_compiler.language.words import JOINS, ROUTE_MODES
from noetl_compiler.nodes import MappingNode
from noetl_compiler.reader import read
from noetl_compiler.report import Report
from noetl_compiler.schema import models_of
from noetl_compiler.source import SourceFile


def fields_of(construct: Construct, text: str) -> ConstructFields:
    source = SourceFile("x.yaml", text)
    node, _ = read(source)
    assert isinstance(node, MappingNode)
    return ConstructFields(node, Report(source), construct)


def findings_of(fields: ConstructFields) -> list[tuple[Code, str]]:
    fields.check_keys()
    return [(diagnostic.code, diagnostic.message) for diagnostic in fields.report.diagnostics]


def names_in(value: ValueType) -> Iterator[str]:
    match value:
        case Nested(name):
            yield name
        case ListOf(item):
            yield from names_in(item)
        case Either(types):
            yield from (name for type_ in types for name in names_in(type_))
        case _:
            pass


@pytest.mark.parametrize("construct", CONSTRUCTS.values(), ids=lambda construct: construct.name)
def test_a_name_means_one_key_of_a_construct(construct: Construct) -> None:
    counts = Counter(name for key in construct.keys for name in key.names)
    assert {name for name, count in counts.items() if count > 1} == set()


def test_keys_below_a_key_are_in_the_schema() -> None:
    known_types = {entry.name for entry in models_of("v10")}
    referenced_types = {
        name for construct in CONSTRUCTS.values() for key in construct.keys for name in names_in(key.type)
    }
    assert referenced_types <= known_types


def test_the_canonical_form_of_a_key_is_found() -> None:
    def below_step(*path: str) -> str:
        construct = STEP
        for name in path:
            keys = nested_construct(construct.by_name[name])
            assert keys is not None
            construct = keys
        return construct.name

    assert below_step("tool", "spec", "policy", "rules", "then") == "action"
    assert below_step("next", "arcs") == "target"
    assert below_step("loop", "spec", "frame") == "frame"
    assert below_step("timeout") == "timeout"
    assert nested_construct(Key("x", "A text.")) is None


def test_a_key_is_read_under_an_older_name() -> None:
    fields = fields_of(LOOP_SPEC, "{collection: [1], concurrency: 4}")
    assert fields.node_of("in") is not None
    count = fields.count("max_in_flight")
    assert count is not None
    assert count.data == 4
    assert findings_of(fields) == []


def test_two_names_of_a_key_are_a_conflict() -> None:
    fields = fields_of(LOOP_SPEC, "{in: [1], items: [2]}")
    fields.node_of("in")
    assert findings_of(fields) == [(Code.CONFLICTING_FIELDS, '"in" and "items" are synonyms')]


def test_a_key_that_no_reader_asks_for_is_checked_by_its_type() -> None:
    assert findings_of(fields_of(STEP_SPEC, "{join: twice, idempotent: 1, timeout: soon, enter: {}}")) == [
        (Code.WRONG_TYPE, '"enter" must be a list, not a mapping'),
        (Code.WRONG_TYPE, '"idempotent" must be true or false, not a number'),
        (Code.WRONG_VALUE, 'invalid value "twice" for "join"'),
        (Code.WRONG_VALUE, 'expected a duration such as 30 or "30s"'),
    ]


def test_a_missing_key_is_reported_once() -> None:
    assert findings_of(fields_of(CIRCUIT, "{window: 3}")) == [
        (Code.MISSING_FIELD, 'a circuit breaker needs "failures"')
    ]
    fields = fields_of(STEP, "{desc: x}")
    fields.required_name("step")
    assert findings_of(fields) == [(Code.MISSING_FIELD, 'a step needs "step"')]


def test_a_key_is_not_read_as_another_type() -> None:
    fields = fields_of(STEP_SPEC, "{}")
    with pytest.raises(TypeError, match='"join" in the spec of a step'):
        fields.flag("join")
    with pytest.raises(TypeError, match='"join" in the spec of a step is declared with other words'):
        fields.choice("join", ROUTE_MODES)
    assert fields.choice("join", JOINS) is None
