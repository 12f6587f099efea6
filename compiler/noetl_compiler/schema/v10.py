"""The steps of the v10 dialect: everything about a call stands below ``tool``, everything about routes in arcs."""

from __future__ import annotations

from noetl_compiler.graph import Json
from noetl_compiler.language import keys
from noetl_compiler.schema.calls import DESC
from noetl_compiler.schema.model import Model, Models, Property
from noetl_compiler.schema.results import OUTPUTS, RESULT
from noetl_compiler.schema.routes import SET
from noetl_compiler.schema.sinks import sink_and_save
from noetl_compiler.schema.step_specs import STEP_SPEC, STEP_SPECS
from noetl_compiler.schema.values import CONDITION, MAPPING, NAME, NAMES, TIMEOUT, ref

__all__ = ["OWN_WORDS", "STEPS"]

OWN_WORDS = frozenset[str]()

_LOOP: Json = {"in": '"{{ $1 }}"', "iterator": "item", "spec": {"mode": "sequential"}}
_NEXT: Json = {"spec": {"mode": "exclusive"}, "arcs": [{"step": "$1"}]}

STEPS: Models = (
    Model(
        "step",
        "A step: its tasks run one after the other, then it goes on by its arcs.",
        (
            Property("step", "The name of the step, by which routes and templates call it.", NAME, required=True),
            DESC,
            Property("spec", "When the step may begin, and how long it may take.", ref("step_spec")),
            Property(
                "input", "Names with their values that all tasks of the step can use.", NAMES, older=keys.INPUT[1:]
            ),
            Property("loop", "Runs the step's tasks once for each item of a list.", ref("loop"), snippet=_LOOP),
            Property("tool", "The task of the step, or the list of its tasks.", ref("tool"), snippet={"kind": "$1"}),
            *SET,
            Property("next", "Where to go on when the step is done.", ref("next"), snippet=_NEXT),
            Property("timeout", "How long the step may take.", TIMEOUT),
            Property(
                "when", 'Skips the step unless this holds; write it as "spec.policy.admit".', CONDITION, deprecated=True
            ),
            Property("vars", 'Names to set when the step is done; write "set" instead.', MAPPING, deprecated=True),
            Property(
                "retry",
                'When to call the last task again; write rules of its "spec.policy" instead.',
                ref("retry"),
                deprecated=True,
            ),
            *sink_and_save("Where the last task's result is stored; write it on the task.", deprecated=True),
            OUTPUTS[0],
            RESULT,
        ),
    ),
    Model("step_spec", "When the step may begin, and how long it may take.", STEP_SPEC),
    *STEP_SPECS,
)
