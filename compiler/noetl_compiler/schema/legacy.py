"""The steps of the legacy dialect: ``tool`` is a word, and its fields are directly on the step."""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.language import keys
from noetl_compiler.language.constructs.steps import STEP, STEP_SPEC
from noetl_compiler.language.tools import PSEUDO_KINDS
from noetl_compiler.schema.calls import DESC, WORKBOOK_TASK_NAME, Calls, by_kind
from noetl_compiler.schema.model import Model, Models, Property, Schema, without_effect
from noetl_compiler.schema.values import MAPPING, NAME, NAMES, any_of, ref

__all__ = ["ACCEPTED_OLDER_NAMES", "steps"]

ACCEPTED_OLDER_NAMES = frozenset({"args", "collection", "element", "concurrency"})
"""Older names that are not deprecated in this dialect."""

_BY_STEP_NAME = "a step's result is reached by the step's name"

_STEP = Model(
    "any_step",
    "Keys of every step.",
    (
        Property("step", STEP.about_of("step"), NAME, required=True),
        DESC,
        Property("loop", "Runs the step's tool once for each item of a list.", ref("loop")),
        Property("next", STEP.about_of("next"), ref("next")),
        Property("vars", "Names to set when the step has ended, usually from its result.", MAPPING),
        Property("result", STEP_SPEC.about_of("returns")),
        without_effect("as", _BY_STEP_NAME),
        without_effect("pass", _BY_STEP_NAME),
    ),
    open=True,
)


_INPUT = Property("input", "Names and values for the next steps.", NAMES, older=(*keys.INPUT[1:], "data"))


def _flat_step(kind: str, calls: Calls) -> tuple[str, Model]:
    kind_property = Property("tool", calls.kinds.tool(kind).summary, {"const": kind}, older=("type",), required=True)
    head = {"workbook": (WORKBOOK_TASK_NAME,), **dict.fromkeys(PSEUDO_KINDS, (_INPUT,))}.get(kind, ())
    return kind, calls.flat_call(kind, f"{kind}_step", (kind_property, *head), (_STEP,))


_NO_TOOL = Property("tool", "The kind of tool to call, with its fields beside it.", {"const": None}, older=("type",))

_HAS_NO_TOOL: Schema = {"properties": {"tool": {"type": "null"}, "type": {"type": "null"}}}
_IS_NESTED: Schema = {"required": ["tool"], "properties": {"tool": {"type": ["object", "array"]}}}
_HAS_SINK: Schema = {"required": ["sink"], "properties": {"sink": {"not": {"type": "null"}}}}


def steps(calls: Calls) -> Models:
    """Return the steps, with the kinds of tools that they may call."""
    kinds = tuple(_flat_step(kind, calls) for kind in calls.kinds.names)
    return (
        _STEP,
        *(model for _, model in kinds),
        Model(
            "bare_step",
            "A step that calls nothing and only routes.",
            (_NO_TOOL, _INPUT),
            included=(_STEP,),
        ),
        replace(calls.flat_call("noop", "store_step", (_NO_TOOL,), (_STEP,)), needs=(("sink",),)),
        Model(
            "nested_step",
            "A step whose tasks are written as in newer dialects.",
            (Property("tool", STEP.about_of("tool"), ref("tool"), required=True),),
            included=(_STEP,),
        ),
        Model(
            "step",
            "A step: it calls its tool, and follows the routes in next.",
            (
                Property("step", STEP.about_of("step"), NAME, required=True),
                Property(
                    "tool",
                    "The kind of tool to call, with its fields beside it.",
                    any_of(calls.kinds.words, ref("tool")),
                ),
                Property("type", "The kind of tool to call, as v1 had it.", calls.kinds.words, deprecated=True),
            ),
            open=True,
            rules={
                "allOf": [
                    *by_kind(kinds, "tool", "type"),
                    {"if": _IS_NESTED, "then": ref("nested_step")},
                    {
                        "if": _HAS_NO_TOOL,
                        "then": {"if": _HAS_SINK, "then": ref("store_step"), "else": ref("bare_step")},
                    },
                ]
            },
        ),
    )
