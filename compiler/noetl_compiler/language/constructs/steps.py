"""Steps: ``step``, its ``spec`` and the policy in it."""

from __future__ import annotations

from noetl_compiler.language import keys
from noetl_compiler.language.construct import Construct, Extension, Key, without_effect
from noetl_compiler.language.constructs.admission import ADMISSIONS
from noetl_compiler.language.constructs.policies import FAILURE, ON_FAILURE_TYPE, POLICY_DEFAULTS
from noetl_compiler.language.constructs.results import CALL_DEFAULT_KEYS, OUTPUT, RESULT, STORED_BY_SIZE
from noetl_compiler.language.constructs.routes import SET
from noetl_compiler.language.constructs.sinks import GUARD_KEY, sink_and_save
from noetl_compiler.language.value_types import TIMEOUT, Choice, ListOf, Nested, Plain, Suggested
from noetl_compiler.language.words import JOINS, ROUTE_MODES, RUN_RESULTS

__all__ = [
    "ANY_STEP",
    "CASE_STEP_CONSTRUCTS",
    "DESC",
    "ENTER",
    "LIFECYCLE",
    "STEP",
    "STEP_POLICY",
    "STEP_SPEC",
]

DESC = Key("desc", "A description for people.", Plain.TEXT, older=("description",))

_NAME = Key("step", "The name of the step, as routes and templates use it.", Plain.NAME, required=True)
ANY_STEP = Construct("any_step", "a step", "Keys of every step.", (_NAME,))
"""A step of a dialect whose other keys are read by hand."""

STEP = Construct(
    "step",
    "a step",
    "A step: its tasks run in order, then its routes are followed.",
    (
        _NAME,
        DESC,
        Key("spec", "When the step may start, and how long it may take.", Nested("step_spec")),
        Key(
            "input",
            "Names and values that all tasks of the step can use.",
            Plain.NAMES,
            older=keys.INPUT[1:],
            default={},
        ),
        Key(
            "loop",
            "Runs the step's tasks once for each item of a list.",
            Nested("loop"),
            snippet={"in": '"{{ $1 }}"', "iterator": "item", "spec": {"mode": "sequential"}},
        ),
        Key("tool", "The task of the step, or the list of its tasks.", Nested("tool"), snippet={"kind": "$1"}),
        *SET,
        Key(
            "next",
            "The next steps, with their conditions.",
            Nested("next"),
            snippet={"spec": {"mode": "exclusive"}, "arcs": [{"step": "$1"}]},
        ),
        Key("timeout", "How long the step may take.", TIMEOUT),
        Key(
            "on_failure",
            "Whether the step waits for a person after a failure.",
            ON_FAILURE_TYPE,
            extension=Extension("step.on_failure", "that a failed step waits for a person"),
        ),
        Key(
            "status",
            "How the run ends: completed, partial or failed. Only the final step may have it. Its templates see "
            "`steps` and `failures`.",
            Suggested(Plain.TEXT, tuple(RUN_RESULTS)),
            extension=Extension("step.status", "how the run ends"),
        ),
        Key(
            "when",
            'Skips the step unless this holds; write it as "spec.policy.admit".',
            Plain.CONDITION,
            deprecated=True,
            successor="write spec: {policy: {admit: {rules: [...]}}}",
        ),
        Key(
            "vars",
            'Names to set when the step has ended; write "set" instead.',
            Plain.MAPPING,
            deprecated=True,
            successor="write set: {ctx.name: ...}",
        ),
        Key(
            "retry",
            'When to call the last task again; write rules of its "spec.policy" instead.',
            Nested("retry"),
            deprecated=True,
        ),
        *sink_and_save("Where the last task's result is stored; write it in the task.", deprecated=True),
        OUTPUT,
        RESULT,
    ),
)

_ABOUT_POLICY = "When the step may start, how long it may take, and what follows its calls and failures."
_ABOUT_SPEC = "When the step may start, and how long it may take."
STEP_SPEC = Construct(
    "step_spec",
    "the spec of a step",
    _ABOUT_SPEC,
    (
        Key(
            "join",
            'When a step that several arcs lead to runs: once, when no other route can still reach it ("wave", the '
            'default), once for the first ("any"), or for each ("each").',
            Choice(JOINS),
            extension=Extension("step.spec.join", "how often a step runs that several routes lead to"),
        ),
        Key("timeout", "How long the step may take.", TIMEOUT),
        Key(
            "end_loop",
            "The step whose loop over steps ends here.",
            Plain.NAME,
            extension=Extension("step.spec.end_loop", "which step ends the steps that a loop repeats"),
        ),
        Key(
            "returns",
            "The result of the step, instead of its tool's result.",
            extension=Extension("step.spec.returns", "what a step's name refers to afterwards"),
        ),
        *sink_and_save(
            "Where the results of the whole loop are stored.",
            extension=Extension("step.spec.sink", "that the results of a loop are stored as a whole"),
        ),
        Key(
            "enter",
            "Names to set before the step's loop or its first task.",
            ListOf(Nested("enter")),
            extension=Extension("step.spec.enter", "what is set before a step's first task"),
        ),
        Key(
            "next_mode",
            'Whether one route of "next" is followed, or all; write it below "spec" of "next".',
            Choice(ROUTE_MODES),
            deprecated=True,
            successor="write next: {spec: {mode: ...}, arcs: [...]}",
        ),
        *CALL_DEFAULT_KEYS,
        Key("policy", _ABOUT_POLICY, Nested("step_policy")),
    ),
)
"""The spec of a step, in v10 and case."""

STEP_POLICY = Construct(
    "step_policy",
    "the policy of a step",
    _ABOUT_POLICY,
    (
        Key("admit", "Rules that skip the step or let it start.", Nested("admission")),
        Key("lifecycle", "How long the step may take.", Nested("lifecycle")),
        FAILURE,
        *POLICY_DEFAULTS,
        without_effect("emit", "every event of a run is in its log"),
        without_effect("results", STORED_BY_SIZE),
    ),
)

LIFECYCLE = Construct(
    "lifecycle",
    "the lifecycle of a step",
    "How long the step may take.",
    (
        Key("timeout_s", "How long the step may take, in seconds.", Plain.SECONDS),
        Key("deadline_s", "The same; the shorter of the two applies.", Plain.SECONDS),
    ),
)

ENTER = Construct(
    "enter",
    "what a step sets on entry",
    "Names to set before the step's loop or its first task.",
    (GUARD_KEY, *SET),
)

CASE_STEP_CONSTRUCTS = (STEP_POLICY, LIFECYCLE, ENTER, *ADMISSIONS)
"""The keys below the spec of a step, in v10 and case."""
