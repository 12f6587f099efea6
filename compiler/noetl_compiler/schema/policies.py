"""Policies of the v10 dialect: what follows a call, how results are collected, whether a step may begin."""

from __future__ import annotations

from noetl_compiler.language import defaults
from noetl_compiler.language.words import ACTIONS, BACKOFFS, BRANCH_FAILURES, ROUTE_MODES, STRATEGIES, UNMATCHED
from noetl_compiler.schema.model import Model, Models, Property, Schema, Shape, without_effect
from noetl_compiler.schema.routes import ON_STATUS, SET
from noetl_compiler.schema.values import (
    AMOUNT,
    CONDITION,
    FLAG,
    MAPPING,
    NAME,
    NUMBER,
    SECONDS,
    TEXT,
    any_of,
    has,
    list_of,
    ref,
    told_words,
    words,
)

__all__ = [
    "ADMISSION",
    "BACKOFF",
    "COLLECT",
    "COLLECTING",
    "FAILURE",
    "GUARD",
    "GUARDS",
    "POLICIES",
    "RULES",
    "STRATEGY",
]

BACKOFF: Schema = told_words(BACKOFFS.about)
"""How a delay grows from call to call."""

_UNEVALUATED = "only rules are evaluated"
_MODE = Property("mode", "The first rule that matches decides, whatever is written here.", words(*ROUTE_MODES))
_WHEN = Property("when", "The condition under which the rule matches; without one it always does.", CONDITION)

_JUMPS_NEED_TO: Schema = {
    "if": {"properties": {"do": {"const": "jump"}}, "required": ["do"]},
    "then": has("to", "target"),
}

STRATEGY: Schema = words(*STRATEGIES)

COLLECT = (
    Property("collect", "How the results of all calls become one.", ref("collect")),
    Property("merge_path", "Where in each result its items are, such as data.items.", TEXT),
)
"""What any place that repeats a call has."""

_ACTION = (
    Property(
        "do",
        'Go on with the next task ("continue"), call again after a failure ("retry") or a success ("again"), go to '
        'another task ("jump"), end the tasks of the step in success ("break") or in failure ("fail").',
        told_words(ACTIONS.about),
        required=True,
    ),
    Property("to", 'The name of the task to jump to, or "previous".', NAME, older=("target",)),
    Property(
        "attempts",
        f"How often a retry may call in total, the first call included; {defaults.ATTEMPTS} unless given.",
        AMOUNT,
    ),
    Property(
        "backoff",
        'How the delay grows: not at all ("none", the default), by itself each time ("linear"), or doubling '
        '("exponential").',
        BACKOFF,
    ),
    Property(
        "multiplier", f"By what an exponential delay grows each time, {defaults.MULTIPLIER:g} unless given.", NUMBER
    ),
    Property("delay", "How long to wait before the next call: seconds, or a text with a unit.", SECONDS),
    Property("max_delay", "The longest that a growing delay may become.", SECONDS),
    Property("jitter", "Whether delays are varied at random, so that many callers do not return at once.", FLAG),
    *SET,
    Property("patch", "The fields of the tool that are other in the next call, such as params.", MAPPING),
    Property("rebind", "The names of the input that are other in the next call.", MAPPING),
    *COLLECT,
    Property("result", "What the task yields in place of its tool's result."),
    Property("message", "What the failure is told as."),
)

RULES = (
    Property(
        "rules",
        "The rules, tried in order after each call.",
        list_of(ref("rule")),
        snippet=[
            {
                "when": "\"{{ output.status == 'error' }}\"",
                "then": {"do": "retry", "attempts": 3, "delay": 1, "backoff": "exponential"},
            }
        ],
    ),
    Property(
        "on_unmatched",
        'What follows an error that no rule matches: go on ("continue", the default) or fail ("fail").',
        told_words(UNMATCHED.about),
    ),
    Property("circuit", "When calls fail at once, because those before them did.", ref("circuit")),
)
"""What follows a call; in the policy of a step, a loop or the executor what follows each call in it."""

FAILURE = Property("failure", "What an unhandled failure means for the other branches.", ref("failure_mode"))

POLICIES: Models = (
    Model(
        "policy",
        "What follows a call: its rules are tried in order, and the first that matches decides.",
        (
            *RULES,
            _MODE,
            without_effect("before", _UNEVALUATED),
            without_effect("after", _UNEVALUATED),
            without_effect("finally", _UNEVALUATED),
        ),
    ),
    Model(
        "rule",
        "A condition about the outcome of a call, and what to do when it holds.",
        (
            _WHEN,
            ON_STATUS,
            Property("then", "What to do when the condition holds.", ref("action"), snippet={"do": "$1"}),
            Property("else", "What to do when no rule before matched.", ref("otherwise")),
        ),
        needs=(("then", "else"),),
    ),
    Model(
        "circuit",
        "A circuit breaker: calls fail at once when too many before them have failed.",
        (
            Property("failures", "After how many failures calls fail at once.", AMOUNT, required=True),
            Property("window", "Within which time the failures count.", SECONDS),
            Property("probe", "After which time one call may try again.", SECONDS),
        ),
    ),
    Model(
        "failure_mode",
        "What an unhandled failure means for the other branches.",
        (
            Property(
                "mode",
                'They go on ("best_effort", the default) or are cancelled ("fail_fast").',
                told_words(BRANCH_FAILURES.about),
            ),
        ),
    ),
    Model("action", "What to do after a call.", _ACTION, rules=_JUMPS_NEED_TO),
    Model(
        "otherwise_then",
        "What to do when no rule before matched.",
        (Property("then", "What to do when no rule before matched.", ref("action"), required=True),),
        open=True,
    ),
    Model(
        "eval_rule",
        'What to do after a call, as it was written before "spec.policy" had rules.',
        (Property("expr", "The condition; braces may be left out.", TEXT, older=("when",)), *_ACTION),
        rules=_JUMPS_NEED_TO,
    ),
    Model(
        "eval_otherwise",
        "What to do when no rule before matched.",
        (Property("else", "What to do when no rule before matched.", ref("action"), required=True),),
        open=True,
    ),
    Shape(
        "eval", list_of({"type": "object", "if": has("else"), "then": ref("eval_otherwise"), "else": ref("eval_rule")})
    ),
    Shape("otherwise", {"if": has("then"), "then": ref("otherwise_then"), "else": ref("action")}),
)

ADMISSION: Models = (
    Model(
        "admission",
        "Whether the step may begin: the first rule that matches decides, and without a match it may.",
        (
            Property(
                "rules",
                "The rules, tried in order before the step begins.",
                list_of(ref("admission_rule")),
                snippet=[{"when": '"{{ $1 }}"', "then": {"allow": True}}, {"else": {"then": {"allow": False}}}],
            ),
            _MODE,
        ),
    ),
    Model(
        "admission_rule",
        "A condition, and whether the step may begin when it holds.",
        (
            _WHEN,
            Property("then", "Whether the step may begin when the condition holds.", ref("verdict")),
            Property("else", "Whether the step may begin when no rule before matched.", ref("otherwise_verdict")),
        ),
        needs=(("then", "else"),),
    ),
    Model(
        "verdict",
        "Whether the step may begin.",
        (Property("allow", "True lets the step begin; false skips it.", FLAG, required=True),),
    ),
    Model(
        "otherwise_verdict_then",
        "Whether the step may begin when no rule before matched.",
        (Property("then", "Whether the step may begin when no rule before matched.", ref("verdict"), required=True),),
        open=True,
    ),
    Shape("otherwise_verdict", {"if": has("then"), "then": ref("otherwise_verdict_then"), "else": ref("verdict")}),
)

COLLECTING: Models = (
    Model(
        "collect_mapping",
        "How the results of all calls become one.",
        (
            Property(
                "strategy",
                'Append the items to a list ("append"), keep the last result ("replace"), list whole results '
                '("collect"), or merge mappings ("merge").',
                STRATEGY,
            ),
            Property("path", "Where in each result its items are, such as data.items.", TEXT, older=("merge_path",)),
            Property(
                "into",
                f'The name under which templates see what was collected, "{defaults.COLLECTED_AS}" unless given.',
                TEXT,
            ),
        ),
    ),
    Shape("collect", any_of(ref("collect_mapping"), STRATEGY)),
)

GUARD = Property("guard", "In which cases this is done; after every success unless given.", ref("guard"))

GUARDS: Models = (
    Model(
        "guard",
        "In which cases this is done.",
        (
            ON_STATUS,
            Property("when", "The condition under which this is done.", CONDITION),
            Property("unless", "Conditions of which none may hold.", list_of(CONDITION)),
        ),
    ),
)
