"""Policies: what follows a call, how results are collected, what a failure means for other branches."""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.language import defaults
from noetl_compiler.language.construct import Construct, Extension, Key, without_effect
from noetl_compiler.language.constructs.routes import ON_STATUS, SET
from noetl_compiler.language.value_types import Below, Choice, Either, ListOf, Plain
from noetl_compiler.language.words import (
    ACTIONS,
    BACKOFFS,
    BRANCH_FAILURES,
    FAILURE_ACTIONS,
    ROUTE_MODES,
    STRATEGIES,
    UNMATCHED,
)

__all__ = [
    "ACTION",
    "CIRCUIT",
    "COLLECT",
    "COLLECT_MAPPING",
    "EVAL_OTHERWISE",
    "EVAL_RULE",
    "FAILED_STEP",
    "FAILURE",
    "FAILURE_MODE",
    "MODE",
    "ON_FAILURE",
    "OTHERWISE",
    "POLICIES",
    "POLICY",
    "POLICY_DEFAULTS",
    "RULE",
    "WHEN",
]

_UNEVALUATED = "only rules are evaluated"
MODE = Key("mode", "The first rule that matches decides, whatever is written here.", Choice(ROUTE_MODES), inert=True)
WHEN = Key("when", "The condition under which the rule matches; without one it always does.", Plain.CONDITION)

COLLECT = (
    Key(
        "collect",
        "How the results of all calls become one.",
        Below("collect"),
        extension=Extension("rule.then.collect", "how the results of several calls become one"),
    ),
    Key("merge_path", "Where in each result its items are, such as data.items.", Plain.TEXT),
)
"""What any place that repeats a call has."""

_ACTION = (
    Key(
        "do",
        'Go on with the next task ("continue"), call again after a failure ("retry") or a success ("again"), go to '
        'another task ("jump"), end the tasks of the step in success ("break") or in failure ("fail").',
        Choice(ACTIONS),
        required=True,
    ),
    Key("to", 'The name of the task to jump to, or "previous".', Plain.NAME, older=("target",)),
    Key(
        "attempts",
        f"How often a retry may call in total, the first call included; {defaults.ATTEMPTS} unless given.",
        Plain.AMOUNT,
    ),
    Key("delay", "How long to wait before the next call: seconds, or a text with a unit.", Plain.SECONDS),
    Key(
        "backoff",
        'How the delay grows: not at all ("none", the default), by itself each time ("linear"), or doubling '
        '("exponential").',
        Choice(BACKOFFS),
        default="none",
    ),
    Key(
        "multiplier",
        f"By what an exponential delay grows each time, {defaults.MULTIPLIER:g} unless given.",
        Plain.NUMBER,
        default=defaults.MULTIPLIER,
        extension=Extension("rule.then.multiplier", "by what a delay grows"),
    ),
    Key(
        "max_delay",
        "The longest that a growing delay may become.",
        Plain.SECONDS,
        extension=Extension("rule.then.max_delay", "how long a growing delay may become"),
    ),
    Key(
        "jitter",
        "Whether delays are varied at random, so that many callers do not return at once.",
        Plain.FLAG,
        default=False,
        extension=Extension("rule.then.jitter", "that a delay varies at random"),
    ),
    Key(
        "patch",
        "The fields of the tool that are other in the next call, such as params.",
        Plain.MAPPING,
        extension=Extension("rule.then.patch", "what is other in the next call"),
    ),
    Key(
        "rebind",
        "The names of the input that are other in the next call.",
        Plain.MAPPING,
        extension=Extension("rule.then.rebind", "which names are bound anew for the next call"),
    ),
    Key(
        "wait_for",
        "The signal that a retry waits for before it calls again, in place of a delay.",
        Plain.NAME,
        extension=Extension("rule.then.wait_for", "that a retry waits for a signal"),
    ),
    Key(
        "timeout",
        "How long a retry waits for the signal; without one, as long as it takes.",
        Plain.SECONDS,
        extension=Extension("rule.then.timeout", "how long a retry waits for a signal"),
    ),
    *COLLECT,
    Key(
        "result",
        "What the task yields in place of its tool's result.",
        extension=Extension("rule.then.result", "that a rule gives a call another result"),
    ),
    Key("message", "What the failure is told as.", extension=Extension("rule.then.message", "why a rule fails a task")),
    *SET,
)

POLICY_DEFAULTS = (
    Key(
        "rules",
        "The rules, tried in order after each call.",
        ListOf(Below("rule")),
        snippet=[
            {
                "when": "\"{{ output.status == 'error' }}\"",
                "then": {"do": "retry", "attempts": 3, "delay": 1, "backoff": "exponential"},
            }
        ],
    ),
    Key(
        "on_unmatched",
        'What follows an error that no rule matches: go on ("continue", the default) or fail ("fail").',
        Choice(UNMATCHED),
    ),
    Key(
        "circuit",
        "When calls fail at once, because those before them did.",
        Below("circuit"),
        extension=Extension("policy.circuit", "when calls fail at once because those before them did"),
    ),
    Key("defaults", "What else holds for each call inside.", Below("defaults")),
)
"""What the policy of a step, a loop or the executor says for the calls inside."""

FAILURE = Key("failure", "What an unhandled failure means for the other branches.", Below("failure_mode"))

FAILED_STEP = Either((Choice(FAILURE_ACTIONS), Below("on_failure")))
"""The value of ``on_failure``."""

ON_FAILURE = Construct(
    "on_failure",
    "what follows a failure",
    "What follows when a step has failed.",
    (
        Key("do", "What follows.", Choice(FAILURE_ACTIONS), required=True),
        Key("for", "How long a failed step is held until it fails, 7 days unless given.", Plain.SECONDS),
    ),
)

POLICY = Construct(
    "policy",
    "a policy",
    "What follows a call: its rules are tried in order, and the first that matches decides.",
    (
        *POLICY_DEFAULTS[:-1],
        MODE,
        without_effect("before", _UNEVALUATED),
        without_effect("after", _UNEVALUATED),
        without_effect("finally", _UNEVALUATED),
    ),
)

RULE = Construct(
    "rule",
    "a policy rule",
    "A condition about the outcome of a call, and what to do when it holds.",
    (
        replace(
            ON_STATUS,
            default="any",
            extension=Extension("rule.on_status", "that a rule is for successes or for failures alone"),
        ),
        WHEN,
        Key("then", "What to do when the condition holds.", Below("action"), snippet={"do": "$1"}),
        Key("else", "What to do when no rule before matched.", Below("otherwise")),
    ),
    needs=(("then", "else"),),
)

ACTION = Construct("action", "a policy rule", "What to do after a call.", _ACTION)

CIRCUIT = Construct(
    "circuit",
    "a circuit breaker",
    "A circuit breaker: calls fail at once when too many before them have failed.",
    (
        Key("failures", "After how many failures calls fail at once.", Plain.AMOUNT, required=True),
        Key("window", "Within which time the failures count.", Plain.SECONDS),
        Key("probe", "After which time one call may try again.", Plain.SECONDS),
    ),
)

FAILURE_MODE = Construct(
    "failure_mode",
    "the failure policy",
    "What an unhandled failure means for the other branches.",
    (
        Key(
            "mode",
            'They go on ("best_effort", the default) or are cancelled ("fail_fast").',
            Choice(BRANCH_FAILURES),
            inert=True,
        ),
    ),
)

OTHERWISE = Construct(
    "otherwise_then",
    "a policy rule",
    "What to do when no rule before matched.",
    (Key("then", "What to do when no rule before matched.", Below("action"), required=True),),
)

EVAL_RULE = Construct(
    "eval_rule",
    "an eval rule",
    'What to do after a call, as it was written before "spec.policy" had rules.',
    (Key("expr", "The condition; braces may be left out.", Plain.TEXT, older=("when",)), *_ACTION),
)

EVAL_OTHERWISE = Construct(
    "eval_otherwise",
    "an eval rule",
    "What to do when no rule before matched.",
    (Key("else", "What to do when no rule before matched.", Below("action"), required=True),),
)

COLLECT_MAPPING = Construct(
    "collect_mapping",
    "collect",
    "How the results of all calls become one.",
    (
        Key(
            "strategy",
            'Append the items to a list ("append"), keep the last result ("replace"), list whole results '
            '("collect"), or merge mappings ("merge").',
            Choice(STRATEGIES),
        ),
        Key(
            "path",
            "Where in each result its items are, such as data.items.",
            Plain.TEXT,
            older=("merge_path",),
            default="",
        ),
        Key(
            "into",
            f'The name under which templates see what was collected, "{defaults.COLLECTED_AS}" unless given.',
            Plain.TEXT,
        ),
    ),
)

POLICIES = (
    POLICY,
    RULE,
    CIRCUIT,
    FAILURE_MODE,
    ON_FAILURE,
    ACTION,
    OTHERWISE,
    EVAL_RULE,
    EVAL_OTHERWISE,
    COLLECT_MAPPING,
)
