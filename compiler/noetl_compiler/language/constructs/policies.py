"""Policies: what follows a call, how results are collected, what a failure means for other branches."""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.language import defaults
from noetl_compiler.language.construct import Construct, Extension, Key, without_effect
from noetl_compiler.language.constructs.routes import ON_STATUS, SET
from noetl_compiler.language.value_types import Choice, Either, ListOf, Nested, Plain
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
    "FAILURE",
    "FAILURE_MODE",
    "MODE",
    "ON_FAILURE",
    "ON_FAILURE_TYPE",
    "OTHERWISE",
    "POLICIES",
    "POLICY",
    "POLICY_DEFAULTS",
    "RULE",
    "WHEN",
]

_ONLY_RULES = "only rules are evaluated"
MODE = Key("mode", "Has no effect: the first rule that matches always decides.", Choice(ROUTE_MODES), restored=True)
WHEN = Key("when", "The condition under which the rule matches; without one it always does.", Plain.CONDITION)

COLLECT = (
    Key(
        "collect",
        "How the results of all calls are combined into one.",
        Nested("collect"),
        extension=Extension("rule.then.collect", "how the results of several calls are combined"),
    ),
    Key("merge_path", "Where in each result its items are, such as data.items.", Plain.TEXT),
)
"""The keys of every construct that repeats a call."""

_ACTION = (
    Key(
        "do",
        'Continue with the next task ("continue"), call again after a failure ("retry") or a success ("again"), go to '
        'another task ("jump"), end the tasks of the step with success ("break") or failure ("fail").',
        Choice(ACTIONS),
        required=True,
    ),
    Key("to", 'The name of the task to jump to, or "previous".', Plain.NAME, older=("target",)),
    Key(
        "attempts",
        f"The maximum number of calls, including the first; {defaults.ATTEMPTS} by default.",
        Plain.COUNT,
    ),
    Key("delay", "How long to wait before the next call: seconds, or a string with a unit.", Plain.SECONDS),
    Key(
        "backoff",
        'How the delay grows: not at all ("none", the default), by the first delay each time ("linear"), or doubling '
        '("exponential").',
        Choice(BACKOFFS),
        default="none",
    ),
    Key(
        "multiplier",
        f"The factor by which an exponential delay grows, {defaults.MULTIPLIER:g} by default.",
        Plain.NUMBER,
        default=defaults.MULTIPLIER,
        extension=Extension("rule.then.multiplier", "the factor by which a delay grows"),
    ),
    Key(
        "max_delay",
        "The upper limit of a growing delay.",
        Plain.SECONDS,
        extension=Extension("rule.then.max_delay", "the upper limit of a growing delay"),
    ),
    Key(
        "jitter",
        "Whether delays are randomised, so that many callers do not retry at the same time.",
        Plain.FLAG,
        default=False,
        extension=Extension("rule.then.jitter", "that a delay is randomised"),
    ),
    Key(
        "patch",
        "The fields of the tool that change in the next call, such as params.",
        Plain.MAPPING,
        extension=Extension("rule.then.patch", "what changes in the next call"),
    ),
    Key(
        "rebind",
        "The input names that change in the next call.",
        Plain.MAPPING,
        extension=Extension("rule.then.rebind", "which names are bound again for the next call"),
    ),
    Key(
        "wait_for",
        "The signal that a retry waits for before it calls again, in place of a delay.",
        Plain.NAME,
        extension=Extension("rule.then.wait_for", "that a retry waits for a signal"),
    ),
    Key(
        "timeout",
        "How long a retry waits for the signal; without it, there is no limit.",
        Plain.SECONDS,
        extension=Extension("rule.then.timeout", "how long a retry waits for a signal"),
    ),
    *COLLECT,
    Key(
        "result",
        "The result of the task, instead of its tool's result.",
        extension=Extension("rule.then.result", "that a rule gives a call another result"),
    ),
    Key("message", "The message of the failure.", extension=Extension("rule.then.message", "why a rule fails a task")),
    *SET,
)

POLICY_DEFAULTS = (
    Key(
        "rules",
        "The rules, tried in order after each call.",
        ListOf(Nested("rule")),
        snippet=[
            {
                "when": "\"{{ output.status == 'error' }}\"",
                "then": {"do": "retry", "attempts": 3, "delay": 1, "backoff": "exponential"},
            }
        ],
    ),
    Key(
        "on_unmatched",
        'After an error that no rule matches, continue ("continue", the default) or fail ("fail").',
        Choice(UNMATCHED),
    ),
    Key(
        "circuit",
        "When calls fail immediately, because earlier ones failed.",
        Nested("circuit"),
        extension=Extension("policy.circuit", "when calls fail immediately because earlier ones failed"),
    ),
    Key("defaults", "Other settings of each of the calls.", Nested("defaults")),
)
"""The keys in the policy of a step, a loop or the executor that apply to its calls."""

FAILURE = Key("failure", "The effect of an unhandled failure on the other branches.", Nested("failure_mode"))

ON_FAILURE_TYPE = Either((Choice(FAILURE_ACTIONS), Nested("on_failure")))
"""The type of ``on_failure``."""

ON_FAILURE = Construct(
    "on_failure",
    "what follows a failure",
    "What follows when a step has failed.",
    (
        Key("do", "What follows.", Choice(FAILURE_ACTIONS), required=True),
        Key("for", "How long a failed step is held before it fails, 7 days by default.", Plain.SECONDS),
    ),
)

POLICY = Construct(
    "policy",
    "a policy",
    "What follows a call: its rules are tried in order, and the first that matches decides.",
    (
        *POLICY_DEFAULTS[:-1],
        MODE,
        without_effect("before", _ONLY_RULES),
        without_effect("after", _ONLY_RULES),
        without_effect("finally", _ONLY_RULES),
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
            extension=Extension("rule.on_status", "that a rule applies only to successes or only to failures"),
        ),
        WHEN,
        Key("then", "What to do when the condition holds.", Nested("action"), snippet={"do": "$1"}),
        Key("else", "What to do when no earlier rule matched.", Nested("otherwise")),
    ),
    needs=(("then", "else"),),
)

ACTION = Construct("action", "a policy rule", "What to do after a call.", _ACTION)

CIRCUIT = Construct(
    "circuit",
    "a circuit breaker",
    "A circuit breaker: calls fail immediately after too many have failed.",
    (
        Key("failures", "The number of failures after which calls fail immediately.", Plain.AMOUNT, required=True),
        Key("window", "The time window in which failures count.", Plain.SECONDS),
        Key("probe", "The time after which one call is made as a probe.", Plain.SECONDS),
    ),
)

FAILURE_MODE = Construct(
    "failure_mode",
    "the failure policy",
    "The effect of an unhandled failure on the other branches.",
    (
        Key(
            "mode",
            'They continue ("best_effort", the default) or are cancelled ("fail_fast").',
            Choice(BRANCH_FAILURES),
            restored=True,
        ),
    ),
)

OTHERWISE = Construct(
    "otherwise_then",
    "a policy rule",
    "What to do when no earlier rule matched.",
    (Key("then", "What to do when no earlier rule matched.", Nested("action"), required=True),),
)

EVAL_RULE = Construct(
    "eval_rule",
    "an eval rule",
    'What to do after a call, in the form used before "spec.policy" had rules.',
    (Key("expr", "The condition; braces are optional.", Plain.TEXT, older=("when",)), *_ACTION),
)

EVAL_OTHERWISE = Construct(
    "eval_otherwise",
    "an eval rule",
    "What to do when no earlier rule matched.",
    (Key("else", "What to do when no earlier rule matched.", Nested("action"), required=True),),
)

COLLECT_MAPPING = Construct(
    "collect_mapping",
    "collect",
    "How the results of all calls are combined into one.",
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
            f'The name under which templates see what was collected, "{defaults.COLLECTED_AS}" by default.',
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
