"""``next``: the arcs of a step and their targets; and ``set``, which many constructs have."""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.language import keys
from noetl_compiler.language.construct import Construct, Extension, Key, without_effect
from noetl_compiler.language.value_types import Choice, Either, ListOf, Nested, Plain, one_or_more
from noetl_compiler.language.words import NO_MATCH, ROUTE_MODES
from noetl_compiler.language.words import ON_STATUS as STATUSES

__all__ = ["ARCS", "CHOICE", "FORK", "NEXT_SPEC", "ON_STATUS", "ROUTES", "SET", "TARGET"]

SET = (
    Key(
        "set",
        'Names to set afterwards, such as "ctx.page"; all values are evaluated before any is set.',
        Either((Plain.MAPPING, ListOf(Plain.MAPPING))),
        older=keys.SET[1:],
    ),
    Key("set_ctx", 'Names to set below "ctx"; write "set" with "ctx.name" instead.', Plain.MAPPING, deprecated=True),
    Key("set_iter", 'Names to set below "iter"; write "set" with "iter.name" instead.', Plain.MAPPING, deprecated=True),
)
"""The keys of every construct that sets names."""

ON_STATUS = Key(
    "on_status",
    'Only after a success ("ok"), only after a failure ("error"), or after both ("any").',
    Choice(STATUSES),
)
_WHEN = Key("when", "The condition under which this route is followed; without one it always is.", Plain.CONDITION)
_INPUT = Key("input", "Names and values for the next step.", Plain.NAMES, older=keys.ROUTE_INPUT[1:])

_ABOUT_SPEC = "Whether one route or all that match are followed, and what happens when none matches."
ARCS = Construct(
    "arcs",
    '"next"',
    "The routes from a step, tried in order when it has ended.",
    (
        Key("spec", _ABOUT_SPEC, Nested("next_spec"), snippet={"mode": "$1"}),
        Key(
            "arcs",
            "The routes; their conditions are tried in order.",
            ListOf(Nested("arc")),
            snippet=[{"step": "$1"}],
        ),
    ),
    needs=(("arcs", "spec"),),
)

NEXT_SPEC = Construct(
    "next_spec",
    "the spec of next",
    _ABOUT_SPEC,
    (
        Key(
            "mode",
            'Follow the first route whose condition holds ("exclusive", the default) or all of them ("inclusive").',
            Choice(ROUTE_MODES),
            restored=True,
        ),
        Key(
            "on_no_match",
            'What happens when no condition holds: go to the final step ("end", the default), complete here '
            '("complete"), or end this branch silently ("quiet").',
            Choice(NO_MATCH),
        ),
        without_effect("policy", "a route has no policy"),
    ),
)

_NO_SETTINGS = "a route has no settings of its own"
TARGET = Construct(
    "target",
    "a route",
    "A next step.",
    (
        Key("step", "The name of the next step.", Plain.NAME, older=("next",), required=True),
        replace(_WHEN, older=("condition",)),
        replace(
            ON_STATUS, extension=Extension("arc.on_status", "that a route is only for successes or only for failures")
        ),
        replace(_INPUT, extension=Extension("arc.input", "the names that a route binds in the next step")),
        *SET,
        without_effect("spec", _NO_SETTINGS),
        without_effect("desc", _NO_SETTINGS),
    ),
)

_ABOUT_CHOICE = "Next steps under a condition; all of them start."
_CHOICE = (
    _WHEN,
    Key("then", "The next step or steps.", one_or_more(Nested("route"))),
    Key("else", "The next step or steps when no earlier condition held.", one_or_more(Nested("route"))),
    _INPUT,
)
CHOICE = Construct("choice", "a route", _ABOUT_CHOICE, _CHOICE, needs=(("then", "else"),))
FORK = Construct(
    "fork",
    "a route",
    _ABOUT_CHOICE,
    (
        _WHEN,
        replace(_CHOICE[1], extension=Extension("arc.then", "that one condition leads to several steps")),
        *_CHOICE[2:],
    ),
    needs=(("then",),),
)

ROUTES = (TARGET, ARCS, NEXT_SPEC, CHOICE, FORK)
