"""What is said of results, and by the specs around calls of each call inside."""

from __future__ import annotations

from dataclasses import replace

from noetl_compiler.dialects.results import OUTPUT_KEYS
from noetl_compiler.schema.model import Model, Models, Property, Schema, Shape, without_effect
from noetl_compiler.schema.policies import RULES
from noetl_compiler.schema.values import AMOUNT, FLAG, HEADER, MAPPING, NAME, TEXT, TIMEOUT, any_of, has, list_of, ref

__all__ = ["DEFAULTS", "OUTPUTS", "POLICY_DEFAULTS", "RESULT", "RESULTS"]

_KEPT = "results are kept inline or by reference as their size demands"
_ABOUT = "Which parts of the result have names of their own, and where the whole is kept."

_IS_OUTPUT: Schema = {"type": "object", **has(*sorted(OUTPUT_KEYS))}
_OUTPUT: Schema = {"if": _IS_OUTPUT, "then": ref("output")}
_SELECT = Property(
    "select", "Parts of the result that get names of their own.", ref("select"), older=("output_select",)
)

OUTPUTS = (
    Property("output", _ABOUT, _OUTPUT),
    Property("output_select", "Parts of the result that get names of their own.", ref("select")),
)
"""What a task says of its result."""

RESULT = Property("result", _ABOUT, _OUTPUT)
"""The same in a spec."""

DEFAULTS = (
    Property("idempotent", "False says that no call inside may be made again when its worker was lost.", FLAG),
    Property("idempotency_key", "The header in which each http call inside sends a key of its own.", HEADER),
    RESULT,
)
"""What a spec says for the calls inside, beside its policy."""

POLICY_DEFAULTS = (
    *RULES,
    Property("defaults", "What else holds for each call inside.", ref("defaults")),
)
"""What a policy says for the calls inside."""

RESULTS: Models = (
    Model(
        "output",
        _ABOUT,
        (
            without_effect("store", _KEPT),
            without_effect("scope", _KEPT),
            replace(without_effect("inline_max_bytes", _KEPT), value=AMOUNT),
            replace(without_effect("preview_max_bytes", _KEPT), value=AMOUNT),
            _SELECT,
            without_effect("accumulate", "pages become one by the collect of the rule that calls again"),
            without_effect("as", "name the task, or set ctx.name"),
        ),
    ),
    Model(
        "part",
        "A part of a result, and its name.",
        (
            Property("path", "The path of the part, such as $.data.items[0].", TEXT, required=True),
            Property("as", "Its name; the last word of the path unless given.", NAME, older=("name",)),
        ),
    ),
    Model(
        "defaults",
        "What else holds for each call inside.",
        (
            Property("timeout", "How long each call may take.", TIMEOUT, older=("timeout_s", "timeouts")),
            without_effect("resources", "what a call may use is settled where its worker runs"),
        ),
    ),
    Shape("select", any_of(list_of(any_of(TEXT, ref("part"))), MAPPING)),
)
