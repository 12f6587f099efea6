"""``workbook``: tasks with a name, which steps run."""

from __future__ import annotations

from dataclasses import replace

from noetl_compiler.schema.calls import ASSERT, DESC, KIND_WORDS, RETURN_AND_ON_ERROR, Calls, by_kind
from noetl_compiler.schema.model import Model, Models, Property, Schema, Shape, without_effect
from noetl_compiler.schema.sinks import sink_and_save
from noetl_compiler.schema.tools import ALL_KINDS, KIND_MEANINGS, kind_of
from noetl_compiler.schema.values import NAME, any_of, has, list_of, ref

__all__ = ["workbook"]

_LABEL = Property("name", "The name by which steps run this task.", NAME, older=("task",))
_KIND = Property("tool", "The kind of tool to call.", KIND_WORDS, older=("kind", "type"), required=True)

_SIGNATURE = tuple(
    without_effect(name, "what is bound and what a tool returns is known only when it runs")
    for name in ("accepts", "returns")
)

_LISTED = list_of({"allOf": [ref("workbook_entry"), has(*_LABEL.names)]})
_MAPPED: Schema = {"type": "object", "additionalProperties": ref("workbook_entry")}
_IS_NESTED: Schema = {"required": ["tool"], "properties": {"tool": {"type": "object"}}}
_ENTRY: Schema = {"type": "object", "if": _IS_NESTED, "then": ref("workbook_nested"), "else": ref("workbook_flat")}
_NEEDED = sorted({name for kind in ALL_KINDS for group in kind_of(kind).needs for name in group})
_UNFINISHED: Schema = {"type": "object", "required": ["kind"], "not": has(*_NEEDED)}
"""A task that lacks what its tool needs is only a mistake when a step calls it."""


def workbook(calls: Calls) -> Models:
    """The workbook in a dialect that writes calls so."""
    flat = tuple((kind, _task(kind, calls)) for kind in ALL_KINDS if kind != "workbook")
    return (
        *(place for _, place in flat),
        Model(
            "workbook_flat",
            "A task with a name and the fields of its tool beside it.",
            (_LABEL, _KIND),
            open=True,
            rules={"allOf": by_kind(flat, *_KIND.names)},
        ),
        *_AROUND,
    )


def _task(kind: str, calls: Calls) -> Model:
    told = Property("tool", KIND_MEANINGS[kind], {"const": kind}, older=("kind", "type"))
    head = (_LABEL, told, *_SIGNATURE, *(RETURN_AND_ON_ERROR if calls.binds else ()))
    return replace(calls.flat(kind, f"{kind}_workbook_task", head), needs=())


_AROUND: Models = (
    Model(
        "workbook_nested",
        "A task with a name.",
        (
            _LABEL,
            Property("tool", "The call of a tool.", any_of(ref("item"), _UNFINISHED), required=True),
            DESC,
            *sink_and_save("Where the result is stored, in the same call."),
            ASSERT,
        ),
    ),
    Model(
        "workbook_mapping",
        "Tasks with a name, which steps run with kind: workbook.",
        (Property("tasks", "The tasks, by name or as a list.", any_of(_LISTED, _MAPPED), required=True),),
        open=True,
    ),
    Shape("workbook", any_of(_LISTED, ref("workbook_mapping"))),
    Shape("workbook_entry", _ENTRY),
)
