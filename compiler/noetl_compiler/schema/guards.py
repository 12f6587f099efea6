"""``guard``: in which cases a task, a sink or what is set on entering counts."""

from __future__ import annotations

from noetl_compiler.schema.model import Model, Models, Property
from noetl_compiler.schema.routes import ON_STATUS
from noetl_compiler.schema.values import CONDITION, list_of, ref

__all__ = ["GUARD", "GUARDS"]

GUARD = Property("guard", "In which cases this is done; after every success unless given.", ref("guard"))

GUARDS: Models = (
    Model(
        "guard",
        "In which cases this is done.",
        (
            ON_STATUS,
            Property("when", "The condition under which this is done.", CONDITION),
            Property("unless", "Conditions of which none may hold.", list_of(CONDITION)),
        ),
    ),
)
