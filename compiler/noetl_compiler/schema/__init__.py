"""The JSON Schema of each dialect, for editors: completion, descriptions on hover, and errors while typing.

The tables in language/constructs describe every key and its values; the fields of tools come from language/tools.py or
from the installed tools (tools.py). Keys that only older dialects have are described here. Schemas are built on demand
from models (model.py) and values (values.py). Tests check that the schemas and the front ends accept the same keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

import msgspec

from noetl_compiler.language.words import Dialect
from noetl_compiler.schema import case, legacy, v1, v10
from noetl_compiler.schema.calls import Calls
from noetl_compiler.schema.merge_dialects import merge_dialects
from noetl_compiler.schema.model import Models, Schema
from noetl_compiler.schema.retries import RETRIES
from noetl_compiler.schema.shapes import routes
from noetl_compiler.schema.shared import SHARED
from noetl_compiler.schema.tasks import tasks
from noetl_compiler.schema.to_json_schema import definitions
from noetl_compiler.schema.tools import KNOWN_KINDS, ToolKinds
from noetl_compiler.schema.workbook import workbook

__all__ = ["DIALECTS", "Schema", "json_schema", "models_of", "schema_of_all"]


class _DialectParts(msgspec.Struct, frozen=True):
    """The parts of a schema that differ by dialect.

    ``steps`` returns the models of its steps. ``accepted_older_names`` are names of keys that are older in v10, but not
    deprecated in the dialect. ``may_bind_fields``: see Calls.
    """

    steps: Callable[[Calls], Models]
    accepted_older_names: Collection[str]
    may_bind_fields: bool = False


_DIALECT_PARTS: Mapping[Dialect, _DialectParts] = MappingProxyType(
    {
        "v10": _DialectParts(lambda _: v10.STEPS, v10.ACCEPTED_OLDER_NAMES),
        "case": _DialectParts(case.steps, case.ACCEPTED_OLDER_NAMES),
        "legacy": _DialectParts(legacy.steps, legacy.ACCEPTED_OLDER_NAMES),
        "v1": _DialectParts(v1.steps, v1.ACCEPTED_OLDER_NAMES, may_bind_fields=True),
    }
)

DIALECTS: tuple[Dialect, ...] = tuple(_DIALECT_PARTS)
"""The dialects that have a schema, the current one first."""


def models_of(dialect: Dialect, kinds: ToolKinds = KNOWN_KINDS) -> Models:
    """Return the definitions of a dialect's schema; their names are unique."""
    parts = _DIALECT_PARTS[dialect]
    calls = Calls(parts.may_bind_fields, kinds)
    return (
        *SHARED,
        *RETRIES,
        *routes(allows_bound_names=dialect == "v1"),
        *tasks(calls),
        *workbook(calls),
        *parts.steps(calls),
    )


def schema_of_all(kinds: ToolKinds = KNOWN_KINDS) -> Schema:
    """Return the schema of playbooks in any dialect. It accepts the keys of all dialects and proposes those of v10."""
    schemas = ((str(dialect), definitions(models_of(dialect, kinds), v10.ACCEPTED_OLDER_NAMES)) for dialect in DIALECTS)
    return {**_head("any dialect", "playbook"), **merge_dialects(dict(schemas))}


def json_schema(dialect: Dialect = "v10", kinds: ToolKinds = KNOWN_KINDS) -> Schema:
    """Return the schema of playbooks in a dialect of DIALECTS, in draft 7, which all editors support."""
    return {
        **_head(dialect, f"playbook-{dialect}"),
        "$ref": "#/definitions/playbook",
        "definitions": definitions(models_of(dialect, kinds), _DIALECT_PARTS[dialect].accepted_older_names),
    }


def _head(description: str, file: str) -> Schema:
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": f"https://noetl.io/schema/{file}.json",
        "title": f"NoETL playbook ({description})",
    }
