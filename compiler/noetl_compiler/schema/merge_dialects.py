"""The schemas of all dialects as one, for a folder that has playbooks of several years.

A playbook is valid when one dialect takes it. What two dialects define alike is defined once. Alike are definitions
of the same text whose references lead to definitions that are alike; those are found as the states of an automaton
are minimised: definitions are distinguished by their text, then by the definitions they refer to, repeatedly.
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
    """One schema of the definitions of several; ``playbook`` is where each begins."""
    texts = {(dialect, name): json.dumps(one) for dialect, own in schemas.items() for name, one in own.items()}
    names = _names(_alike(texts))
    definitions = {names[key]: _renamed(text, key[0], names) for key, text in texts.items()}
    choices = ({"$ref": f"#/definitions/{names[dialect, 'playbook']}"} for dialect in schemas)
    return {"anyOf": list(choices), "definitions": definitions}


def _renamed(text: str, dialect: str, names: Mapping[_Key, str]) -> Schema:
    found: Schema = json.loads(_REFERENCE.sub(lambda reference: names[dialect, reference[0]], text))
    return found


def _alike(texts: Mapping[_Key, str]) -> dict[_Key, int]:
    """Return a number for each definition, the same for those that are alike."""
    numbers, known = _numbered(dict(texts)), 0
    while known < (known := len(set(numbers.values()))):
        numbers = _numbered(
            {
                key: (numbers[key], *(numbers[key[0], name] for name in _REFERENCE.findall(text)))
                for key, text in texts.items()
            }
        )
    return numbers


def _numbered(marks: Mapping[_Key, object]) -> dict[_Key, int]:
    known: dict[object, int] = {}
    return {key: known.setdefault(mark, len(known)) for key, mark in marks.items()}


def _names(alike: Mapping[_Key, int]) -> dict[_Key, str]:
    """A definition keeps its name, unless others have it too; then the name of its first dialect is added."""
    first: dict[tuple[str, int], str] = {}
    for (dialect, name), number in alike.items():
        first.setdefault((name, number), dialect)
    several = {name for name, _ in first if sum(name == other for other, _ in first) > 1}
    return {key: f"{first[key[1], number]}_{key[1]}" if key[1] in several else key[1] for key, number in alike.items()}
