"""Values with several forms, which are distinguished by their keys."""

from __future__ import annotations

from noetl_compiler.language.constructs import routes as tables
from noetl_compiler.language.constructs.results import SELECT
from noetl_compiler.language.sinks import KIND_KEYS
from noetl_compiler.language.value_types import Choice
from noetl_compiler.language.words import REDUCERS, STRATEGIES
from noetl_compiler.schema.from_table import model_of, value_of_type
from noetl_compiler.schema.model import Model, Models, Property, Schema, Shape
from noetl_compiler.schema.values import NAME, TEMPLATE, any_of, described_words, has, list_of, one_or_more, ref

__all__ = ["CASES", "JUMPS_NEED_TO", "OTHERWISE_VERDICT", "SHAPES", "routes"]

JUMPS_NEED_TO: Schema = {
    "if": {"properties": {"do": {"const": "jump"}}, "required": ["do"]},
    "then": has("to", "target"),
}
"""A rule that jumps needs a target."""

SHAPES: Models = (
    Shape("reduce", {"type": "object", "additionalProperties": described_words(REDUCERS.about)}),
    Shape("select", value_of_type(SELECT)),
    Shape("collect", any_of(ref("collect_mapping"), value_of_type(Choice(STRATEGIES)))),
    Shape("otherwise", {"if": has("then"), "then": ref("otherwise_then"), "else": ref("action")}),
    Shape(
        "eval", list_of({"type": "object", "if": has("else"), "then": ref("eval_otherwise"), "else": ref("eval_rule")})
    ),
    Shape("sinks", one_or_more(ref("sink"))),
    Shape("saves", any_of({"type": "object", "if": has(*KIND_KEYS), "then": ref("sink")}, list_of(ref("sink")))),
)

OTHERWISE_VERDICT = Shape(
    "otherwise_verdict", {"if": has("then"), "then": ref("otherwise_verdict_then"), "else": ref("verdict")}
)

_IS_ENTRY: Schema = {**has("step", "next", "when", "then", "else"), "not": has("arcs", "spec")}
_IS_FORK: Schema = {"required": ["then"], "not": {"required": ["step"]}}
_IS_CHOICE: Schema = {**has("when", "then", "else"), "not": {"required": ["step"]}}

_ROUTES: Models = (
    *(model_of(construct) for construct in tables.ROUTES if construct is not tables.TARGET),
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


_SINK = Property(
    "sink", "Where the result of the step is stored when this rule is followed.", ref("sink"), required=True
)
CASES: Models = (
    Model("stored_choice", "A rule that stores the result of the step.", (_SINK, *model_of(tables.CHOICE).properties)),
    Shape(
        "cases",
        any_of(
            ref("next"), list_of({"if": has("sink"), "then": ref("stored_choice"), "else": any_of(NAME, ref("entry"))})
        ),
    ),
)
"""The rules of a v1 ``case``."""


def routes(*, allows_bound_names: bool) -> Models:
    """Return the models of ``next``.

    ``allows_bound_names``: other keys of a target whose value is a template are names bound for its step.
    """
    rules: Schema = {"additionalProperties": {"type": "string", "pattern": TEMPLATE}} if allows_bound_names else {}
    return (model_of(tables.TARGET, rules), *_ROUTES)
