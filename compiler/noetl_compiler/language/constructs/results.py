"""Keys for results, and for the defaults that a spec declares for its calls."""

from __future__ import annotations

from noetl_compiler.language.construct import Construct, Key, without_effect
from noetl_compiler.language.value_types import TIMEOUT, Either, ListOf, Nested, Plain

__all__ = [
    "CALL_DEFAULTS",
    "CALL_DEFAULT_KEYS",
    "OUTPUT",
    "OUTPUT_CONSTRUCT",
    "OUTPUT_SELECT",
    "PART",
    "RESULT",
    "RESULTS",
    "SELECT",
    "STORED_BY_SIZE",
]

STORED_BY_SIZE = "results are stored inline or by reference depending on their size"
_ABOUT = "Which parts of the result have their own names, and where the whole is stored."
_ABOUT_SELECT = "Parts of the result that get their own names."

OUTPUT_CONSTRUCT = Construct(
    "output",
    "an output",
    _ABOUT,
    (
        without_effect("store", STORED_BY_SIZE),
        without_effect("scope", STORED_BY_SIZE),
        without_effect("inline_max_bytes", STORED_BY_SIZE, Plain.AMOUNT),
        without_effect("preview_max_bytes", STORED_BY_SIZE, Plain.AMOUNT),
        Key("select", _ABOUT_SELECT, Nested("select"), older=("output_select",)),
        without_effect("accumulate", "pages are merged by 'collect' in the rule that repeats the call"),
        without_effect("as", "name the task, or set ctx.name"),
    ),
)

_OUTPUT = Nested("output", frozenset(OUTPUT_CONSTRUCT.by_name))
OUTPUT = Key("output", _ABOUT, _OUTPUT)
"""The key for the result of a task."""

OUTPUT_SELECT = Key("output_select", _ABOUT_SELECT, Nested("select"))
RESULT = Key("result", _ABOUT, _OUTPUT)
"""The key for the result in a spec."""

CALL_DEFAULT_KEYS = (
    Key("idempotent", "False: none of the calls may be repeated if their worker is lost.", Plain.FLAG),
    Key("idempotency_key", "The header in which each of the http calls sends its own key.", Plain.HEADER),
    RESULT,
)
"""Keys of a spec that are defaults for its calls, in addition to those of its policy."""

PART = Construct(
    "part",
    "a part of a result",
    "A part of a result, and its name.",
    (
        Key("path", "The path of the part, such as $.data.items[0].", Plain.TEXT, required=True),
        Key("as", "Its name; the last word of the path by default.", Plain.NAME, older=("name",)),
    ),
)

CALL_DEFAULTS = Construct(
    "defaults",
    "the defaults of a policy",
    "Other settings of each of the calls.",
    (
        Key("timeout", "How long each call may take.", TIMEOUT, older=("timeout_s", "timeouts")),
        without_effect("resources", "limits on resources are set on the worker"),
    ),
)

RESULTS = (OUTPUT_CONSTRUCT, PART, CALL_DEFAULTS)
SELECT = Either((ListOf(Either((Plain.TEXT, Nested("part")))), Plain.MAPPING))
"""The shape ``select``."""
