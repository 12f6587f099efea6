"""The steps of the case dialect: a tool, and rules about the events of its step."""

from __future__ import annotations

from noetl_compiler.language import keys
from noetl_compiler.language.words import CASE_ON_ERROR, ROUTE_MODES
from noetl_compiler.schema.calls import CALLED, DESC, KIND_WORDS, Calls, by_kind
from noetl_compiler.schema.case_actions import CASE_ACTIONS
from noetl_compiler.schema.model import Model, Models, Property, Schema, without_effect
from noetl_compiler.schema.routes import SET
from noetl_compiler.schema.sinks import sink_and_save
from noetl_compiler.schema.step_specs import STEP_SPEC, STEP_SPECS
from noetl_compiler.schema.tools import ALL_KINDS, KIND_MEANINGS
from noetl_compiler.schema.values import MAPPING, NAME, NAMES, TIMEOUT, any_of, list_of, ref, words

__all__ = ["OWN_WORDS", "STEPS"]

OWN_WORDS = frozenset({"args"})
"""What newer dialects have other words for."""

_ABOUT_SPEC = "How the rules are evaluated, and how long the step may take."
_SPEC = (
    Property(
        "case_mode",
        'At each event the first rule that matches decides ("exclusive", the default) or all ("inclusive").',
        words(*ROUTE_MODES),
    ),
    Property(
        "on_error",
        'What follows an error that no rule decides: the step fails ("fail", the default), goes on '
        '("continue") or calls again ("retry").',
        words(*CASE_ON_ERROR),
    ),
    without_effect("eval_mode", "each event of a step is evaluated once, when it happens"),
)

_STEP = Model(
    "any_step",
    "What every step has.",
    (
        Property("step", "The name of the step, by which routes and templates call it.", NAME, required=True),
        DESC,
        Property(
            "case", "Rules about the events of the step, tried in order at each event.", list_of(ref("case_rule"))
        ),
        Property("loop", "Runs the step's tool once for each item of a list.", ref("loop")),
        Property("input", "Names with their values that the tool can use.", NAMES, older=keys.INPUT[1:]),
        Property("vars", "Names to set when the step is done, usually out of its result.", MAPPING),
        *SET,
        Property("result", "What the step yields in place of its tool's result."),
        Property("next", "Where to go on when no rule has led on.", ref("next")),
        Property("timeout", "How long the step may take.", TIMEOUT),
        Property("retry", "When to call the tool again.", ref("retry")),
        *sink_and_save("Where the tool's result is stored."),
    ),
    open=True,
)


def _flat(kind: str) -> tuple[str, Model]:
    told = Property("tool", KIND_MEANINGS[kind], {"const": kind}, required=True)
    head = (told, Property("spec", _ABOUT_SPEC, ref("flat_spec")), *((CALLED,) if kind == "workbook" else ()))
    return kind, Calls().flat(kind, f"{kind}_step", head, (_STEP,))


_KINDS = tuple(_flat(kind) for kind in ALL_KINDS)
_IS_FLAT: Schema = {"required": ["tool"], "properties": {"tool": {"type": "string"}}}
_FLAT: Schema = {"allOf": by_kind(_KINDS, "tool")}
_TOOL = "The call of a tool, or several of them, one after the other."

STEPS: Models = (
    _STEP,
    *(place for _, place in _KINDS),
    Model(
        "nested_step",
        "A step: it calls its tool, and its rules say what follows.",
        (
            Property("tool", _TOOL, any_of(ref("tool_with_loop"), ref("tool"))),
            Property("spec", _ABOUT_SPEC, ref("step_spec")),
        ),
        borrowed=(_STEP,),
    ),
    Model(
        "tool_with_loop",
        "The call of a tool that is written with the loop of its step.",
        (
            Property("kind", "The kind of tool to call.", KIND_WORDS, required=True),
            Property(
                "loop", "The loop of the step; write it on the step.", ref("loop"), required=True, deprecated=True
            ),
        ),
        open=True,
    ),
    Model(
        "step",
        "A step: it calls its tool, and its rules say what follows.",
        (
            Property("step", "The name of the step, by which routes and templates call it.", NAME, required=True),
            Property("tool", _TOOL, any_of(ref("tool_with_loop"), ref("tool"), KIND_WORDS)),
        ),
        open=True,
        rules={"if": _IS_FLAT, "then": _FLAT, "else": ref("nested_step")},
    ),
    Model("step_spec", _ABOUT_SPEC, (*_SPEC, *STEP_SPEC)),
    Model("flat_spec", _ABOUT_SPEC, (*_SPEC, *(one for one in STEP_SPEC if one.name != "policy"))),
    *STEP_SPECS,
    *CASE_ACTIONS,
)
