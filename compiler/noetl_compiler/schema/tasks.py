"""``tool``: one task or a list of them, each with a label or without."""

from __future__ import annotations

from noetl_compiler.language.constructs.calls import CALLS, LABEL
from noetl_compiler.language.constructs.calls import NAME as NAMED
from noetl_compiler.schema.calls import WORKBOOK_TASK_NAME, Calls, by_kind
from noetl_compiler.schema.from_table import model_of, property_of
from noetl_compiler.schema.model import Model, Models, Property, Schema, Shape
from noetl_compiler.schema.values import any_of, list_of, ref

__all__ = ["tasks"]

_NAME, _LABEL = property_of(NAMED), property_of(LABEL)

_IS_LABELLED: Schema = {"minProperties": 1, "maxProperties": 1, "additionalProperties": {"type": "object"}}
_LABELLED: Schema = {"additionalProperties": ref("task")}


def tasks(calls: Calls) -> Models:
    """Return the models of ``tool`` for the calls of a dialect."""
    kinds = tuple((kind, _task(kind, calls)) for kind in calls.kinds.names)
    kind_choice = Property("kind", "The kind of tool to call.", calls.kinds.words, older=("type",), required=True)
    return (
        *map(calls.fields, calls.kinds.names),
        *(model for _, model in kinds),
        Model(
            "task",
            "One call of a tool.",
            (kind_choice,),
            open=True,
            rules={"allOf": by_kind(kinds, *kind_choice.names)},
        ),
        *map(model_of, CALLS),
        Shape("item", {"type": "object", "if": _IS_LABELLED, "then": _LABELLED, "else": ref("task")}),
        Shape("tool", any_of(ref("item"), list_of(ref("item")))),
    )


def _task(kind: str, calls: Calls) -> Model:
    kind_property = Property("kind", calls.kinds.tool(kind).summary, {"const": kind}, older=("type",))
    name_properties = {"workbook": (WORKBOOK_TASK_NAME, _LABEL), "secrets": (_LABEL,)}.get(kind, (_NAME,))
    return calls.nested_call(kind, f"{kind}_task", (kind_property, *name_properties))
