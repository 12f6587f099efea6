"""``tool``: one task or a list of them, each with a label or without."""

from __future__ import annotations

from noetl_compiler.schema.calls import CALL, CALLED, KIND_WORDS, TOOL_FIELDS, Calls, by_kind
from noetl_compiler.schema.model import Model, Models, Property, Schema, Shape, without_effect
from noetl_compiler.schema.results import RESULT
from noetl_compiler.schema.tools import ALL_KINDS, KIND_MEANINGS
from noetl_compiler.schema.values import FLAG, HEADER, NAME, SECONDS, TEXT, TIMEOUT, any_of, list_of, ref

__all__ = ["tasks"]

_ABOUT_NAME = "The name of this task, for jumps, results and messages."
_NAME = Property("name", _ABOUT_NAME, NAME, older=("label",))
_LABEL = Property("label", _ABOUT_NAME, NAME)
"""The name of a task whose tool has a name of its own."""

_IS_LABELLED: Schema = {"minProperties": 1, "maxProperties": 1, "additionalProperties": {"type": "object"}}
_LABELLED: Schema = {"additionalProperties": ref("task")}


def tasks(calls: Calls) -> Models:
    """``tool`` in a dialect that writes calls so."""
    kinds = tuple((kind, _task(kind, calls)) for kind in ALL_KINDS)
    chosen = Property("kind", "The kind of tool to call.", KIND_WORDS, older=("type",), required=True)
    return (
        CALL,
        *TOOL_FIELDS.values(),
        *(place for _, place in kinds),
        Model("task", "One call of a tool.", (chosen,), open=True, rules={"allOf": by_kind(kinds, *chosen.names)}),
        *_SETTINGS,
        Shape("item", {"type": "object", "if": _IS_LABELLED, "then": _LABELLED, "else": ref("task")}),
        Shape("tool", any_of(ref("item"), list_of(ref("item")))),
    )


def _task(kind: str, calls: Calls) -> Model:
    told = Property("kind", KIND_MEANINGS[kind], {"const": kind}, older=("type",))
    named = {"workbook": (CALLED, _LABEL), "secrets": (_LABEL,)}.get(kind, (_NAME,))
    return calls.nested(kind, f"{kind}_task", (told, *named))


_SETTINGS: Models = (
    Model(
        "task_spec",
        "What follows the call, and how long it may take.",
        (
            Property("policy", "What follows the call: rules that retry, jump, break, fail or go on.", ref("policy")),
            Property("timeout", "How long the call may take: seconds, or a text with a unit.", TIMEOUT),
            Property(
                "idempotent",
                "False says that the call must not be made again when its worker was lost in the middle of it.",
                FLAG,
            ),
            Property(
                "idempotency_key",
                "The header in which an http call sends its key: the same with all attempts of the call, and another "
                "for each call.",
                HEADER,
            ),
            RESULT,
        ),
        open=True,
    ),
    Model(
        "assert",
        "The names that the call expects to be bound.",
        (
            Property("expects", "The names that the call expects to be bound.", list_of(TEXT)),
            without_effect("returns", "what a tool returns is known only when it runs"),
        ),
    ),
    Model(
        "timeout",
        "How long a call may take, by its parts.",
        (
            Property("connect", "How long connecting may take.", SECONDS),
            Property("read", "How long the server may be silent.", SECONDS),
            Property("total", "How long all of it may take.", SECONDS),
        ),
    ),
)
