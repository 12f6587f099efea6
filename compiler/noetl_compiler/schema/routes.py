"""``next``, in every shape it ever had."""

from __future__ import annotations

from dataclasses import replace

from noetl_compiler.language import keys
from noetl_compiler.language.words import NO_MATCH, ROUTE_MODES
from noetl_compiler.language.words import ON_STATUS as STATUSES
from noetl_compiler.schema.model import Model, Models, Property, Schema, Shape, without_effect
from noetl_compiler.schema.values import (
    CONDITION,
    MAPPING,
    NAME,
    NAMES,
    TEMPLATE,
    any_of,
    has,
    list_of,
    one_or_more,
    ref,
    told_words,
)

__all__ = ["ON_STATUS", "SET", "routes"]

SET = (
    Property(
        "set",
        'Names to set when this is done, such as "ctx.page"; all values are evaluated before any is set.',
        any_of(MAPPING, list_of(MAPPING)),
        older=("set_vars",),
    ),
    Property("set_ctx", 'Names to set below "ctx"; write "set" with "ctx.name" instead.', MAPPING, deprecated=True),
    Property("set_iter", 'Names to set below "iter"; write "set" with "iter.name" instead.', MAPPING, deprecated=True),
)
"""What any place that sets names has."""

ON_STATUS = Property(
    "on_status",
    'Only after a success ("ok"), only after a failure ("error"), or after both ("any").',
    told_words(STATUSES.about),
)
_WHEN = Property("when", "The condition under which this route is followed; without one it always is.", CONDITION)
_INPUT = Property(
    "input",
    "Names with their values that the next step can use.",
    NAMES,
    older=keys.ROUTE_INPUT[1:],
)

_IS_ENTRY: Schema = {**has("step", "next", "when", "then", "else"), "not": has("arcs", "spec")}
_IS_FORK: Schema = {"required": ["then"], "not": {"required": ["step"]}}
_IS_CHOICE: Schema = {**has("when", "then", "else"), "not": {"required": ["step"]}}

_ABOUT_CHOICE = "Steps to go on to under a condition, all of them at once."
_CHOICE = (
    _WHEN,
    Property("then", "The step or steps to go on to.", one_or_more(ref("route"))),
    Property("else", "The step or steps to go on to when no condition before held.", one_or_more(ref("route"))),
)

_TARGET = Model(
    "target",
    "A step to go on to.",
    (
        Property("step", "The name of the step to go on to.", NAME, older=("next",), required=True),
        replace(_WHEN, older=("condition",)),
        ON_STATUS,
        _INPUT,
        *SET,
        without_effect("spec", "a route has no settings of its own"),
        without_effect("desc", "a route has no settings of its own"),
    ),
)

_ROUTES: Models = (
    Model(
        "arcs",
        "The routes from a step, tried in order when it is done.",
        (
            Property(
                "arcs",
                "The routes, in the order in which their conditions are tried.",
                list_of(ref("arc")),
                snippet=[{"step": "$1"}],
            ),
            Property(
                "spec",
                "Whether one route or all that match are followed, and what happens when none matches.",
                ref("next_spec"),
                snippet={"mode": "$1"},
            ),
        ),
        needs=(("arcs", "spec"),),
    ),
    Model(
        "next_spec",
        "Whether one route or all that match are followed, and what happens when none matches.",
        (
            Property(
                "mode",
                'Follow the first route whose condition holds ("exclusive", the default) or all of them ("inclusive").',
                told_words(ROUTE_MODES.about),
            ),
            Property(
                "on_no_match",
                'What happens when no condition holds: go to the final step ("end", the default), complete here '
                '("complete"), or end this branch silently ("quiet").',
                told_words(NO_MATCH.about),
            ),
            without_effect("policy", "a route has no policy"),
        ),
    ),
    Model("choice", _ABOUT_CHOICE, (*_CHOICE, _INPUT), needs=(("then", "else"),)),
    Model("fork", _ABOUT_CHOICE, (*_CHOICE, _INPUT), needs=(("then",),)),
    Shape(
        "next",
        any_of(
            {"type": "object", "if": _IS_ENTRY, "then": ref("entry"), "else": ref("arcs")},
            NAME,
            list_of(any_of(NAME, ref("entry"))),
        ),
    ),
    Shape("entry", {"type": "object", "if": _IS_CHOICE, "then": ref("choice"), "else": ref("target")}),
    Shape("arc", any_of(NAME, {"type": "object", "if": _IS_FORK, "then": ref("fork"), "else": ref("target")})),
    Shape("route", any_of(NAME, ref("target"))),
)


def routes(*, loose: bool) -> Models:
    """``next``. ``loose``: templates beside the name of a step are names bound for it."""
    rules: Schema = {"additionalProperties": {"type": "string", "pattern": TEMPLATE}} if loose else {}
    return (replace(_TARGET, rules=rules), *_ROUTES)
