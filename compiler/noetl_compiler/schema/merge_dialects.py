"""Merges the schemas of all dialects into one, for folders with playbooks of several dialects.

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
    names = _merged_names(_equivalence_classes(texts))
    definitions = {names[key]: _rename_references(text, key[0], names) for key, text in texts.items()}
    choices = ({"$ref": f"#/definitions/{names[dialect, 'playbook']}"} for dialect in schemas)
    return {"anyOf": list(choices), "definitions": definitions}


def _rename_references(text: str, dialect: str, names: Mapping[_Key, str]) -> Schema:
    schema: Schema = json.loads(_REFERENCE.sub(lambda reference: names[dialect, reference[0]], text))
    return schema


def _equivalence_classes(texts: Mapping[_Key, str]) -> dict[_Key, int]:
    """Return the number of the class of each definition; equivalent definitions have the same."""
    numbers = _number_classes(texts)
    while True:
        labels = {
            key: (numbers[key], *(numbers[key[0], name] for name in _REFERENCE.findall(text)))
            for key, text in texts.items()
        }
        refined_numbers = _number_classes(labels)
        if len(set(refined_numbers.values())) == len(set(numbers.values())):
            return numbers
        numbers = refined_numbers


def _number_classes(labels: Mapping[_Key, object]) -> dict[_Key, int]:
    """Number the definitions from 0, with the same number for equal labels."""
    number_of_label: dict[object, int] = {}
    return {key: number_of_label.setdefault(label, len(number_of_label)) for key, label in labels.items()}


def _merged_names(classes: Mapping[_Key, int]) -> dict[_Key, str]:
    """Return the new name of each definition; a name that several classes have gets the prefix of a dialect."""
    first_dialects: dict[tuple[str, int], str] = {}
    for (dialect, name), number in classes.items():
        first_dialects.setdefault((name, number), dialect)
    ambiguous_names = {name for name, _ in first_dialects if sum(name == other for other, _ in first_dialects) > 1}
    return {
        key: f"{first_dialects[key[1], number]}_{key[1]}" if key[1] in ambiguous_names else key[1]
        for key, number in classes.items()
    }
