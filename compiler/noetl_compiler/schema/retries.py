"""``retry`` of the dialects before v10, in all its forms: a boolean, a number, one rule, two rules, or a list."""

from __future__ import annotations

from noetl_compiler.language import defaults
from noetl_compiler.language.constructs.policies import ACTION, COLLECT
from noetl_compiler.language.constructs.sinks import sink_and_save
from noetl_compiler.language.words import BACKOFFS
from noetl_compiler.schema.from_table import properties
from noetl_compiler.schema.model import Model, Models, Property, Schema, Shape, without_effect
from noetl_compiler.schema.values import (
    CONDITION,
    COUNT,
    FLAG,
    MAPPING,
    NUMBER,
    SECONDS,
    any_of,
    described_words,
    has,
    list_of,
    one_or_more,
    ref,
)

__all__ = ["RETRIES"]

_BACKOFF = described_words(BACKOFFS.about)

_RETRY_WHEN = Property(
    "when",
    "The condition under which a failed call is repeated; of several, all must hold.",
    one_or_more(CONDITION),
    older=("retry_when",),
)
_DELAYS = (
    Property(
        "initial_delay",
        f"How long to wait before the second call, {defaults.DELAY:g} second by default.",
        SECONDS,
        older=("delay", "backoff_seconds", "base_seconds"),
    ),
    Property(
        "backoff_multiplier",
        f"The factor by which the delay grows, {defaults.MULTIPLIER:g} by default.",
        NUMBER,
        ("multiplier", "factor"),
    ),
    Property(
        "max_delay",
        f"The upper limit of a growing delay, {defaults.RETRY_MAX_DELAY:g} seconds by default.",
        SECONDS,
        ("max_seconds",),
    ),
    Property("jitter", "Whether delays are randomised.", FLAG),
)
_FAILURE = (
    Property(
        "max_attempts", f"The maximum number of calls, {defaults.ATTEMPTS} by default.", COUNT, older=("attempts",)
    ),
    Property("stop_when", "The condition under which the outcome is final, success or failure.", CONDITION),
    Property("retry_on_status", "The HTTP statuses after which to call again.", list_of({"examples": [429, 503]})),
    Property(
        "backoff",
        "How the delay grows from call to call, exponentially by default; a number is the delay itself.",
        any_of(_BACKOFF, NUMBER, ref("backoff")),
    ),
    *_DELAYS,
    without_effect("retry_on", 'write when: "{{ error.kind in [...] }}"'),
)

_WHILE = Property("while", "There is another call as long as this holds after a success.", CONDITION, older=("when",))
_REPETITION = (
    Property("next_call", ACTION.about_of("patch"), MAPPING),
    Property(
        "max_attempts", f"The maximum number of calls, {defaults.PAGES} by default.", COUNT, older=("max_iterations",)
    ),
    Property("initial_delay", "How long to wait before the next call.", SECONDS, older=("delay", "interval")),
    *properties(COLLECT),
    Property("per_iteration", "What is done with each single result.", ref("per_iteration")),
    without_effect("backoff_multiplier", "the delay between pages is constant"),
)

_PAGES: Schema = {"allOf": [ref("retry_repetition"), has("next_call", "collect")]}

RETRIES: Models = (
    Model("retry_failure", "Calls again after a failure.", (_RETRY_WHEN, *_FAILURE)),
    Model(
        "retry_repetition",
        "Calls again after a success: pages, polling.",
        (_WHILE, *_REPETITION),
        needs=(_WHILE.names,),
    ),
    Model("rule_failure", "Calls again after a failure.", _FAILURE),
    Model("rule_repetition", "Calls again after a success: pages, polling.", _REPETITION),
    Model(
        "retry_outcomes",
        "When to call again, after a success and after a failure.",
        (
            Property("on_error", "When and how to call again after a failure.", ref("retry_failure")),
            Property("on_success", "When and how to call again after a success.", ref("retry_repetition")),
        ),
    ),
    Model(
        "failure_rule",
        "When and how to call again after a failure.",
        (
            Property("when", "The condition under which a failed call is repeated.", CONDITION),
            Property("then", "How to call again.", ref("rule_failure"), required=True),
        ),
    ),
    Model(
        "repetition_rule",
        "When and how to call again after a success.",
        (
            Property("when", "There is another call as long as this holds after a success.", CONDITION, required=True),
            Property("then", "How to call again.", ref("rule_repetition"), required=True),
        ),
    ),
    Model(
        "while_rule",
        "When and how to call again after a success.",
        (Property("then", "When and how to call again.", _PAGES, required=True),),
    ),
    Model(
        "backoff",
        "How the delay grows from call to call.",
        (Property("type", "How the delay grows from call to call, exponentially by default.", _BACKOFF), *_DELAYS),
    ),
    Model(
        "per_iteration",
        "What is done with each single result.",
        properties(sink_and_save("Where each result is stored.")),
    ),
    Shape(
        "retry",
        any_of(
            {
                "type": "object",
                "if": has("on_error", "on_success"),
                "then": ref("retry_outcomes"),
                "else": ref("retry_failure"),
            },
            {"type": ["boolean", "integer"], "minimum": 0},
            list_of(ref("retry_rule")),
        ),
    ),
    Shape("retry_rule", any_of(ref("failure_rule"), ref("repetition_rule"), ref("while_rule"))),
)
