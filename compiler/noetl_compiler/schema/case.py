"""The steps of the case dialect: a tool, and rules about the events of its step."""

from __future__ import annotations

from noetl_compiler.language import keys
from noetl_compiler.language.constructs.routes import SET
from noetl_compiler.language.constructs.sinks import sink_and_save
from noetl_compiler.language.constructs.steps import STEP, STEP_SPEC
from noetl_compiler.language.words import CASE_ON_ERROR, ROUTE_MODES
from noetl_compiler.schema.calls import DESC, WORKBOOK_TASK_NAME, Calls, by_kind
from noetl_compiler.schema.case_actions import case_actions
from noetl_compiler.schema.from_table import properties
from noetl_compiler.schema.model import Model, Models, Property, Schema, without_effect
from noetl_compiler.schema.shared import STEP_SPECS
from noetl_compiler.schema.values import MAPPING, NAME, NAMES, TIMEOUT, any_of, list_of, ref, words

__all__ = ["ACCEPTED_OLDER_NAMES", "steps"]

ACCEPTED_OLDER_NAMES = frozenset({"args"})
"""Older names that are not deprecated in this dialect."""

_ABOUT_SPEC = "How the rules are evaluated, and how long the step may take."
_SPEC = (
    Property(
        "case_mode",
        'Whether at each event the first matching rule applies ("exclusive", the default) or all ("inclusive").',
        words(*ROUTE_MODES),
    ),
    Property(
        "on_error",
        'What follows an error that no rule decides: the step fails ("fail", the default), continues '
        '("continue") or calls again ("retry").',
        words(*CASE_ON_ERROR),
    ),
    without_effect("eval_mode", "each event of a step is evaluated once, when it happens"),
)

_STEP = Model(
    "any_step",
    "Keys of every step.",
    (
        Property("step", STEP.about_of("step"), NAME, required=True),
        DESC,
        Property(
            "case", "Rules about the events of the step, tried in order at each event.", list_of(ref("case_rule"))
        ),
        Property("loop", "Runs the step's tool once for each item of a list.", ref("loop")),
        Property("input", "Names and values for the tool.", NAMES, older=keys.INPUT[1:]),
        Property("vars", "Names to set when the step has ended, usually from its result.", MAPPING),
        *properties(SET),
        Property("result", STEP_SPEC.about_of("returns")),
        Property("next", "The next steps when no rule routes.", ref("next")),
        Property("timeout", "How long the step may take.", TIMEOUT),
        Property("retry", "When to call the tool again.", ref("retry")),
        *properties(sink_and_save("Where the tool's result is stored.")),
    ),
    open=True,
)


def _flat_step(kind: str, calls: Calls) -> tuple[str, Model]:
    kind_property = Property("tool", calls.kinds.tool(kind).summary, {"const": kind}, required=True)
    head = (
        kind_property,
        Property("spec", _ABOUT_SPEC, ref("flat_spec")),
        *((WORKBOOK_TASK_NAME,) if kind == "workbook" else ()),
    )
    return kind, calls.flat_call(kind, f"{kind}_step", head, (_STEP,))


_IS_FLAT: Schema = {"required": ["tool"], "properties": {"tool": {"type": "string"}}}
_TOOL = "A call of a tool, or several in order."


def steps(calls: Calls) -> Models:
    """Return the steps, with the kinds of tools that they may call."""
    kinds, kind_words = tuple(_flat_step(kind, calls) for kind in calls.kinds.names), calls.kinds.words
    return (
        _STEP,
        *(model for _, model in kinds),
        Model(
            "nested_step",
            "A step: it calls its tool, and its rules decide what follows.",
            (
                Property("tool", _TOOL, any_of(ref("tool_with_loop"), ref("tool"))),
                Property("spec", _ABOUT_SPEC, ref("step_spec")),
            ),
            included=(_STEP,),
        ),
        Model(
            "tool_with_loop",
            "The call of a tool that is written with the loop of its step.",
            (
                Property("kind", "The kind of tool to call.", kind_words, required=True),
                Property(
                    "loop", "The loop of the step; write it on the step.", ref("loop"), required=True, deprecated=True
                ),
            ),
            open=True,
        ),
        Model(
            "step",
            "A step: it calls its tool, and its rules decide what follows.",
            (
                Property("step", STEP.about_of("step"), NAME, required=True),
                Property("tool", _TOOL, any_of(ref("tool_with_loop"), ref("tool"), kind_words)),
            ),
            open=True,
            rules={"if": _IS_FLAT, "then": {"allOf": by_kind(kinds, "tool")}, "else": ref("nested_step")},
        ),
        Model("step_spec", _ABOUT_SPEC, (*_SPEC, *properties(STEP_SPEC.keys))),
        Model("flat_spec", _ABOUT_SPEC, (*_SPEC, *properties(key for key in STEP_SPEC.keys if key.name != "policy"))),
        *STEP_SPECS,
        *case_actions(calls),
    )
