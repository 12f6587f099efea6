"""The JSON Schema of each dialect, for editors: completion, a sentence on hover, mistakes underlined while typing.

Tables, one file a part of the language, say of every key what it means and what its value may be (model.py has their
words, values.py the values); the fields of tools come from language/tools.py. A schema is made from them on demand.
That they and the front ends know the same is held by tests, which ask both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from noetl_compiler.language.words import Dialect
from noetl_compiler.schema import case, legacy, v1, v10
from noetl_compiler.schema.calls import Calls
from noetl_compiler.schema.loops import LOOPS
from noetl_compiler.schema.merge_dialects import together
from noetl_compiler.schema.model import Models, Schema
from noetl_compiler.schema.policies import COLLECTING, GUARDS, POLICIES
from noetl_compiler.schema.results import RESULTS
from noetl_compiler.schema.retries import RETRIES
from noetl_compiler.schema.root import ROOT
from noetl_compiler.schema.routes import routes
from noetl_compiler.schema.sinks import SINKS
from noetl_compiler.schema.tasks import tasks
from noetl_compiler.schema.to_json_schema import definitions
from noetl_compiler.schema.v1_calls import CALLS
from noetl_compiler.schema.workbook import workbook

__all__ = ["DIALECTS", "Schema", "json_schema", "models_of", "schema_of_all"]

_SHARED: Models = (*ROOT, *LOOPS, *GUARDS, *POLICIES, *COLLECTING, *RESULTS, *RETRIES, *SINKS)
_CALLS = Calls()


@dataclass(frozen=True, slots=True)
class _Words:
    """What a dialect has of its own. ``usual`` are older names that are its usual ones, so not deprecated."""

    steps: Models
    usual: Collection[str]
    calls: Calls = _CALLS


_OWN: Mapping[Dialect, _Words] = MappingProxyType(
    {
        "v10": _Words(v10.STEPS, v10.OWN_WORDS),
        "case": _Words(case.STEPS, case.OWN_WORDS),
        "legacy": _Words(legacy.STEPS, legacy.OWN_WORDS),
        "v1": _Words(v1.STEPS, v1.OWN_WORDS, CALLS),
    }
)

DIALECTS: tuple[Dialect, ...] = tuple(_OWN)
"""The dialects that have a schema, the current one first."""


def models_of(dialect: Dialect) -> Models:
    """Everything that has a name of its own in a dialect's schema; no two have the same."""
    own = _OWN[dialect]
    return (*_SHARED, *routes(loose=dialect == "v1"), *tasks(own.calls), *workbook(own.calls), *own.steps)


def schema_of_all() -> Schema:
    """The schema of playbooks in any dialect. It takes the words of each and proposes those of v10."""
    schemas = ((str(dialect), definitions(models_of(dialect), v10.OWN_WORDS)) for dialect in DIALECTS)
    return {**_head("any dialect", "playbook"), **together(dict(schemas))}


def json_schema(dialect: Dialect = "v10") -> Schema:
    """The schema of playbooks in that dialect, which is one of DIALECTS, in the draft that all editors know."""
    return {
        **_head(dialect, f"playbook-{dialect}"),
        "$ref": "#/definitions/playbook",
        "definitions": definitions(models_of(dialect), _OWN[dialect].usual),
    }


def _head(what: str, file: str) -> Schema:
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": f"https://noetl.io/schema/{file}.json",
        "title": f"NoETL playbook ({what})",
    }
