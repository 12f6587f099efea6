"""``spec`` of a step: when it may begin, how long it may take, and what only our v10 says of it."""

from __future__ import annotations

from noetl_compiler.language.words import JOINS, ROUTE_MODES
from noetl_compiler.schema.model import Model, Models, Property, without_effect
from noetl_compiler.schema.policies import ADMISSION, FAILURE, GUARD
from noetl_compiler.schema.results import DEFAULTS, POLICY_DEFAULTS
from noetl_compiler.schema.routes import SET
from noetl_compiler.schema.sinks import sink_and_save
from noetl_compiler.schema.values import NAME, SECONDS, TIMEOUT, list_of, ref, told_words, words

__all__ = ["STEP_SPEC", "STEP_SPECS"]

STEP_SPEC = (
    Property("policy", "When the step may begin.", ref("step_policy")),
    Property("timeout", "How long the step may take.", TIMEOUT),
    Property(
        "join",
        'When a step that several arcs lead to runs: once, when no other route can still reach it ("wave", the '
        'default), once for the first ("any"), or for each ("each").',
        told_words(JOINS.about),
    ),
    Property("enter", "Names to set before the step's loop or its first task.", list_of(ref("enter"))),
    Property("returns", "What the step yields in place of its tool's result."),
    Property("end_loop", "The step whose loop over steps ends here.", NAME),
    Property(
        "next_mode",
        'Whether one route of "next" is followed or all; write it below "spec" of "next".',
        words(*ROUTE_MODES),
        deprecated=True,
    ),
    *DEFAULTS,
    *sink_and_save("Where the results of the whole loop are stored."),
)
"""What the spec of a step has in v10 and case."""

STEP_SPECS: Models = (
    Model(
        "step_policy",
        "When the step may begin.",
        (
            Property("admit", "Rules that skip the step or let it begin.", ref("admission")),
            Property("lifecycle", "How long the step may take.", ref("lifecycle")),
            FAILURE,
            *POLICY_DEFAULTS,
            without_effect("emit", "every event of a run is in its log"),
            without_effect("results", "results are kept inline or by reference as their size demands"),
        ),
    ),
    Model(
        "lifecycle",
        "How long the step may take.",
        (
            Property("timeout_s", "How long the step may take, in seconds.", SECONDS),
            Property("deadline_s", "The same; the shorter of the two holds.", SECONDS),
        ),
    ),
    Model("enter", "Names to set before the step's loop or its first task.", (*SET, GUARD)),
    *ADMISSION,
)
