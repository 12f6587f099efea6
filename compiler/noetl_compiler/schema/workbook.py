"""``workbook``: named tasks that steps call."""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.language.constructs.calls import TASK, WORKBOOK_TASK
from noetl_compiler.language.constructs.playbook import PLAYBOOK
from noetl_compiler.language.constructs.sinks import sink_and_save
from noetl_compiler.schema.calls import ASSERT, DESC, RETURN_AND_ON_ERROR, Calls, by_kind
from noetl_compiler.schema.from_table import properties, property_of
from noetl_compiler.schema.model import Model, Models, Property, Schema, Shape, without_effect
from noetl_compiler.schema.tools import ToolKinds
from noetl_compiler.schema.values import any_of, has, list_of, ref

__all__ = ["workbook"]

_LABEL = property_of(WORKBOOK_TASK.by_name["name"])
_KIND = Property("tool", "The kind of tool to call.", older=("kind", "type"), required=True)

_SIGNATURE = tuple(
    without_effect(name, "arguments and results are known only at run time") for name in ("accepts", "returns")
)

_TASK_LIST = list_of({"allOf": [ref("workbook_entry"), has(*_LABEL.names)]})
_TASK_MAPPING: Schema = {"type": "object", "additionalProperties": ref("workbook_entry")}
_IS_NESTED: Schema = {"required": ["tool"], "properties": {"tool": {"type": "object"}}}
_ENTRY: Schema = {"type": "object", "if": _IS_NESTED, "then": ref("workbook_nested"), "else": ref("workbook_flat")}


def workbook(calls: Calls) -> Models:
    """Return the models of the workbook for the calls of a dialect."""
    flat = tuple((kind, _task(kind, calls)) for kind in calls.kinds.names if kind != "workbook")
    return (
        *(model for _, model in flat),
        Model(
            "workbook_flat",
            "A task with a name and the fields of its tool beside it.",
            (_LABEL, replace(_KIND, value=calls.kinds.words)),
            open=True,
            rules={"allOf": by_kind(flat, *_KIND.names)},
        ),
        *_workbook_models(_incomplete_task(calls.kinds)),
    )


def _task(kind: str, calls: Calls) -> Model:
    kind_property = Property("tool", calls.kinds.tool(kind).summary, {"const": kind}, older=("kind", "type"))
    head = (_LABEL, kind_property, *_SIGNATURE, *(RETURN_AND_ON_ERROR if calls.may_bind_fields else ()))
    return replace(calls.flat_call(kind, f"{kind}_workbook_task", head), needs=())


def _incomplete_task(kinds: ToolKinds) -> Schema:
    """Return the schema of a task without the required fields of its tool, which is valid until a step calls it."""
    required_names = sorted({name for kind in kinds.names for group in kinds.tool(kind).needs for name in group})
    return {"type": "object", "required": ["kind"], "not": has(*required_names)}


def _workbook_models(incomplete_task: Schema) -> Models:
    return (
        Model(
            "workbook_nested",
            "A task with a name.",
            (
                _LABEL,
                Property("tool", "The call of a tool.", any_of(ref("item"), incomplete_task), required=True),
                DESC,
                *properties(sink_and_save(TASK.about_of("sink"))),
                ASSERT,
            ),
        ),
        Model(
            "workbook_mapping",
            PLAYBOOK.about_of("workbook"),
            (Property("tasks", "The tasks, by name or as a list.", any_of(_TASK_LIST, _TASK_MAPPING), required=True),),
            open=True,
        ),
        Shape("workbook", any_of(_TASK_LIST, ref("workbook_mapping"))),
        Shape("workbook_entry", _ENTRY),
    )
