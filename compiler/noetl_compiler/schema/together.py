"""The schemas of all dialects as one, for a folder that has playbooks of several years.

A playbook is valid when one dialect takes it. What two dialects define alike is defined once: a definition is shared
as long as all that it refers to is shared too, which is found by striking out those that are not until none is left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from noetl_compiler.schema.place import Schema

__all__ = ["together"]

_REFERENCE = re.compile(r'"\$ref": "#/definitions/(\w+)"')


def together(schemas: Mapping[str, Schema]) -> Schema:
    """One schema of the definitions of several; ``playbook`` is where each begins."""
    texts = {name: {key: json.dumps(one) for key, one in own.items()} for name, own in schemas.items()}
    shared = _shared(list(texts.values()))
    definitions: Schema = {}
    for dialect, own in texts.items():
        naming = _Naming(dialect, shared)
        definitions |= {naming.of(key): json.loads(_REFERENCE.sub(naming.renamed, one)) for key, one in own.items()}
    choices = ({"$ref": f"#/definitions/{_Naming(dialect, shared).of('playbook')}"} for dialect in schemas)
    return {"anyOf": list(choices), "definitions": definitions}


@dataclass(frozen=True, slots=True)
class _Naming:
    """What the definitions of one schema are called beside those of others."""

    dialect: str
    shared: frozenset[str]

    def of(self, name: str) -> str:
        return name if name in self.shared else f"{self.dialect}_{name}"

    def renamed(self, reference: re.Match[str]) -> str:
        return f'"$ref": "#/definitions/{self.of(reference[1])}"'


def _shared(every: list[dict[str, str]]) -> frozenset[str]:
    """The names that mean the same wherever they are defined."""
    names = {name for own in every for name in own}
    alike = {name for name in names if len({own[name] for own in every if name in own}) == 1}
    while struck := {name for name in alike if any(not alike.issuperset(_asked(own.get(name, ""))) for own in every)}:
        alike -= struck
    return frozenset(alike)


def _asked(text: str) -> list[str]:
    return _REFERENCE.findall(text)
