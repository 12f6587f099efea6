"""Merges the schemas of all dialects to one, for folders with playbooks of several dialects.

A playbook is valid if one dialect accepts it. Equivalent definitions are merged: those with the same text whose
references lead to equivalent definitions. They are found as in the minimisation of automata: definitions are first
distinguished by their text, then repeatedly by the classes of the definitions to which they refer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TypeAlias

from noetl_compiler.schema.model import Schema

__all__ = ["merge_dialects"]

_REFERENCE = re.compile(r'(?<="\$ref": "#/definitions/)\w+(?=")')

_Key: TypeAlias = tuple[str, str]
"""A dialect, and the name of a definition in it."""


def merge_dialects(schemas: Mapping[str, Schema]) -> Schema:
    """Return one schema with the definitions of several; each has its root in the definition ``playbook``."""
    texts = {
        (dialect, name): json.dumps(definition)
        for dialect, definitions_of_dialect in schemas.items()
        for name, definition in definitions_of_dialect.items()
    }
    names = _merged_names(_classes(texts))
    definitions = {names[key]: _rename_references(text, key[0], names) for key, text in texts.items()}
    choices = ({"$ref": f"#/definitions/{names[dialect, 'playbook']}"} for dialect in schemas)
    return {"anyOf": list(choices), "definitions": definitions}


def _rename_references(text: str, dialect: str, names: Mapping[_Key, str]) -> Schema:
    schema: Schema = json.loads(_REFERENCE.sub(lambda reference: names[dialect, reference[0]], text))
    return schema


def _classes(texts: Mapping[_Key, str]) -> dict[_Key, int]:
    """Return the number of the class of each definition; equivalent definitions have the same."""
    numbers, class_count = _number_equal(dict(texts)), 0
    while class_count < (class_count := len(set(numbers.values()))):
        numbers = _number_equal(
            {
                key: (numbers[key], *(numbers[key[0], name] for name in _REFERENCE.findall(text)))
                for key, text in texts.items()
            }
        )
    return numbers


def _number_equal(marks: Mapping[_Key, object]) -> dict[_Key, int]:
    known: dict[object, int] = {}
    return {key: known.setdefault(mark, len(known)) for key, mark in marks.items()}


def _merged_names(classes: Mapping[_Key, int]) -> dict[_Key, str]:
    """Return the new name of each definition; a name that several classes have gets the prefix of a dialect."""
    first: dict[tuple[str, int], str] = {}
    for (dialect, name), number in classes.items():
        first.setdefault((name, number), dialect)
    ambiguous_names = {name for name, _ in first if sum(name == other for other, _ in first) > 1}
    return {
        key: f"{first[key[1], number]}_{key[1]}" if key[1] in ambiguous_names else key[1]
        for key, number in classes.items()
    }
