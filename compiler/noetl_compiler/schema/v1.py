"""The steps of the v1 dialect, which have a ``type``, or a ``call`` of a playbook or a workbook task."""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.language.constructs.loops import LOOP_KEYS
from noetl_compiler.language.constructs.sinks import sink_and_save
from noetl_compiler.language.constructs.steps import STEP, STEP_SPEC
from noetl_compiler.language.words import V1_ON_ERROR
from noetl_compiler.schema.calls import DESC, INPUT, Calls
from noetl_compiler.schema.from_table import properties
from noetl_compiler.schema.model import Model, Models, Property, Schema, without_effect
from noetl_compiler.schema.shapes import CASES
from noetl_compiler.schema.v1_calls import Form, nested_calls
from noetl_compiler.schema.values import (
    CONDITION,
    NAME,
    any_of,
    described_words,
    first_of,
    has,
    list_of,
    one_or_more,
    ref,
    words,
)

__all__ = ["ACCEPTED_OLDER_NAMES", "steps"]

ACCEPTED_OLDER_NAMES = frozenset({"with", "collection", "element", "filter", "save", "task"})
"""Older names that are not deprecated in this dialect."""

_NAME = Property("step", STEP.about_of("step"), NAME)
_NEEDS_NAME = (("step", "name"),)
"""A step with a type may have its name in "name"."""

_STEP = Model(
    "any_step",
    "Keys of every step.",
    (
        _NAME,
        DESC,
        Property("when", "Skips the step unless this holds.", CONDITION),
        Property("pass", "Skips the step when this holds.", CONDITION),
        Property(
            "loop",
            'Runs the step once for each item; without a call, the steps from here to the one with its "end_loop".',
            ref("loop"),
        ),
        Property("end_loop", STEP_SPEC.about_of("end_loop"), NAME),
        Property("result", "The result of the step, instead of its call's result.", older=("return",)),
        Property("next", STEP.about_of("next"), ref("next")),
        Property(
            "on_error",
            'The next step after a failure; "continue" routes as after a success.',
            any_of(words(*V1_ON_ERROR), list_of(ref("entry"))),
        ),
        Property("case", 'The next steps, with their conditions; write "next" instead.', ref("cases"), deprecated=True),
    ),
    needs=_NEEDS_NAME,
    open=True,
)
_CALL = Property("call", "The call of the step: a name, or a mapping of fields.", ref("called"), required=True)
_SINKS = properties(sink_and_save(STEP_SPEC.about_of("sink")))

_NESTED_LOOP_KEYS = ("cursor", "policy", "frame", "distribution")
_LOOP_PROPERTIES = tuple(
    replace(loop_key, older=tuple(name for name in loop_key.older if name != "as"))
    for loop_key in properties(LOOP_KEYS)
    if loop_key.name not in _NESTED_LOOP_KEYS
)
_IS_ITERATOR = any_of(
    *({"required": [key], "properties": {key: {"enum": ["iterator", "loop"]}}} for key in ("type", "tool"))
)
_IS_NESTED: Schema = {
    "required": ["tool"],
    "properties": {"tool": {"type": ["object", "array"]}},
    "not": {"required": ["type"]},
}
_IS_REGION: Schema = {"required": ["loop"], "not": has("type", "tool", "task")}

_ITERATOR = described_words(dict.fromkeys(("iterator", "loop"), "Runs a task once for each item of a list."))


def steps(calls: Calls) -> Models:
    """Return the steps, with the kinds of tools that they may call."""
    form = Form("step", ("type", "tool"), calls, (_STEP,))
    return (
        *CASES,
        _STEP,
        *form.models(),
        *nested_calls(calls),
        Model(
            "iterator_step",
            "Runs a task once for each item of a list.",
            (
                *(Property(key, "Runs a task once for each item of a list.", _ITERATOR) for key in ("type", "tool")),
                *_LOOP_PROPERTIES,
                Property(
                    "task",
                    "The task or tasks to run for each item.",
                    one_or_more(ref("called")),
                    ("tasks",),
                    required=True,
                ),
                Property("name", "A name for the step; it has no effect here.", NAME),
                INPUT,
                *_SINKS,
                without_effect("enumerate", "the index of an iteration is always available as loop.index"),
            ),
            included=(_STEP,),
            needs=(("collection", "in", "items", "data", "loop"),),
        ),
        Model(
            "call_step",
            "Calls something by its name.",
            (Property("type", "What kind of step this is.", form.words), _CALL, INPUT),
            included=(_STEP,),
        ),
        Model(
            "nested_step",
            "A step whose tasks are written as in newer dialects.",
            (Property("tool", STEP.about_of("tool"), ref("tool"), required=True), INPUT),
            included=(_STEP,),
        ),
        Model(
            "region_step",
            "Runs the steps from here to the one with its end_loop once for each item.",
            (Property("loop", "The items, and the name of each.", ref("loop"), required=True), INPUT, *_SINKS),
            included=(_STEP,),
        ),
        Model("bare_step", "A step that calls nothing and only routes.", (INPUT,), included=(_STEP,)),
        Model(
            "step",
            "A step: it calls something, and follows the routes in next.",
            (
                _NAME,
                Property("type", "What kind of step this is.", any_of(form.words, _ITERATOR)),
                Property("tool", "The kind of tool to call.", any_of(form.words, _ITERATOR, ref("tool"))),
                Property("call", "The call of the step: a name, or a mapping of fields.", ref("called")),
            ),
            needs=_NEEDS_NAME,
            open=True,
            rules=first_of(
                (_IS_ITERATOR, ref("iterator_step")),
                (has("call"), ref("call_step")),
                (_IS_NESTED, ref("nested_step")),
                (_IS_REGION, ref("region_step")),
                otherwise=form.choice(ref("bare_step")),
            ),
        ),
    )
