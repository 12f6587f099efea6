"""The JSON Schema of each dialect, for editors: completion, a sentence on hover, mistakes underlined while typing.

The tables in language/constructs say of every key what it means and what its value may be; the fields of tools come
from language/tools.py or from the tools that are installed (tools.py). What only older dialects have is described here.
A schema is made on demand (model.py has its words, values.py the values).
That they and the front ends know the same is held by tests, which ask both.
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


class _Words(msgspec.Struct, frozen=True):
    """The parts of a schema that differ by dialect. ``usual`` are older names that are usual there, so not deprecated.
    Where it ``binds`` fields, see Calls.
    """

    steps: Callable[[Calls], Models]
    usual: Collection[str]
    binds: bool = False


_OWN: Mapping[Dialect, _Words] = MappingProxyType(
    {
        "v10": _Words(lambda _: v10.STEPS, v10.OWN_WORDS),
        "case": _Words(case.steps, case.OWN_WORDS),
        "legacy": _Words(legacy.steps, legacy.OWN_WORDS),
        "v1": _Words(v1.steps, v1.OWN_WORDS, binds=True),
    }
)

DIALECTS: tuple[Dialect, ...] = tuple(_OWN)
"""The dialects that have a schema, the current one first."""


def models_of(dialect: Dialect, kinds: ToolKinds = KNOWN_KINDS) -> Models:
    """Return everything that has a name of its own in a dialect's schema; no two have the same."""
    own = _OWN[dialect]
    calls = Calls(own.binds, kinds)
    return (*SHARED, *RETRIES, *routes(loose=dialect == "v1"), *tasks(calls), *workbook(calls), *own.steps(calls))


def schema_of_all(kinds: ToolKinds = KNOWN_KINDS) -> Schema:
    """Return the schema of playbooks in any dialect. It takes the words of each and proposes those of v10."""
    schemas = ((str(dialect), definitions(models_of(dialect, kinds), v10.OWN_WORDS)) for dialect in DIALECTS)
    return {**_head("any dialect", "playbook"), **merge_dialects(dict(schemas))}


def json_schema(dialect: Dialect = "v10", kinds: ToolKinds = KNOWN_KINDS) -> Schema:
    """Return the schema of playbooks in that dialect, which is one of DIALECTS, in the draft that all editors know."""
    return {
        **_head(dialect, f"playbook-{dialect}"),
        "$ref": "#/definitions/playbook",
        "definitions": definitions(models_of(dialect, kinds), _OWN[dialect].usual),
    }


def _head(what: str, file: str) -> Schema:
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": f"https://noetl.io/schema/{file}.json",
        "title": f"NoETL playbook ({what})",
    }
