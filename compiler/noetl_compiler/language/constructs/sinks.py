"""``sink``: where results are stored, with all older names of its keys; ``guard``: when a task or a sink runs."""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.language.construct import Construct, Extension, Key, without_effect
from noetl_compiler.language.constructs.routes import ON_STATUS
from noetl_compiler.language.sinks import AUTH_KEYS, EVENT_KINDS, KIND_KEYS, KINDS, VALUE_KEYS
from noetl_compiler.language.value_types import Choice, Either, ListOf, Nested, Plain, Suggested
from noetl_compiler.language.words import SINK_LEVELS, SINK_MODES

__all__ = ["GUARD", "GUARD_KEY", "SINK", "SINKS", "SINK_KEYS", "SINK_TOOL", "sink_and_save"]

GUARD = Construct(
    "guard",
    "a guard",
    "When a task runs, a sink stores, or names are set.",
    (
        ON_STATUS,
        Key("when", "A condition that must be true.", Plain.CONDITION),
        Key("unless", "Conditions that must all be false.", ListOf(Plain.CONDITION)),
    ),
)
GUARD_KEY = Key(
    "guard",
    "When it runs, stores or sets; after every success by default.",
    Nested("guard"),
    extension=Extension("guard", "when a task runs that is not one of the step's own tasks"),
)

_KIND = Suggested(Plain.NAME, tuple(sorted(KINDS | EVENT_KINDS - {""})))
_KINDS = Key("kind", "The kind of store.", _KIND, older=("type", "backend"))
_INNER_KINDS = replace(_KINDS, older=(*_KINDS.older, "tool"))
_KIND_OR_FIELDS = Either((_KIND, Nested("sink_tool")))

_MEANINGS = {
    "table": "The table that rows are stored in.",
    "key": "The column or columns that identify a row.",
    "data": "What is stored, usually a template; the whole result by default.",
    "statement": "The statement to run, instead of a generated one.",
    "mapping": "For each column, what it is filled from: the name of a field of the data, a path such as user.id, a "
    'template that sees the "row", or a value that is not a string.',
    "params": "The values bound to the statement's parameters.",
    "batch": "The number of rows in a batch.",
    "url": "The address that the data is sent to.",
    "method": "The HTTP method to send the data with.",
    "headers": "The HTTP headers to send.",
    "code": "The Python code that stores the data.",
    "database": "The name or file of the database.",
}

_TYPES = {"mapping": Plain.MAPPING}

SINK_KEYS = (
    Key(
        "storage",
        'An older name of "kind", or a mapping of the kind of store and its fields.',
        _KIND_OR_FIELDS,
        deprecated=True,
    ),
    Key(AUTH_KEYS[0], "The name of the credential to store with.", older=AUTH_KEYS[1:]),
    *(
        Key(name, _MEANINGS[name], _TYPES.get(name, Plain.ANYTHING), older=spellings[1:])
        for name, spellings in VALUE_KEYS.items()
    ),
    Key(
        "mode",
        'How rows are stored: added ("insert", the default, or "append"), updated if the key exists ("upsert"), '
        'replacing all others ("replace"), or merged by key ("merge").',
        Choice(SINK_MODES),
        default="insert",
    ),
    Key(
        "level",
        'Whether each call\'s result is stored ("attempt", the default) or that of all calls together ("task").',
        Choice(SINK_LEVELS),
        default="attempt",
    ),
    GUARD_KEY,
    Key("when", 'The condition under which rows are stored; write "guard" instead.', Plain.CONDITION, deprecated=True),
    without_effect("concurrency", "all rows of a sink are stored together"),
    without_effect("name", "all rows of a sink are stored together"),
)

SINK = Construct(
    "sink",
    "a sink",
    "Stores each result in the call that produced it.",
    (
        Key("tool", "The kind of store, or a mapping of it and its fields.", _KIND_OR_FIELDS),
        _KINDS,
        *SINK_KEYS,
    ),
    needs=(KIND_KEYS,),
)

SINK_TOOL = Construct(
    "sink_tool",
    "a sink",
    "The kind of store and its fields.",
    (_INNER_KINDS, *SINK_KEYS),
    needs=((*_INNER_KINDS.names, "storage"),),
)

SINKS = (GUARD, SINK, SINK_TOOL)


def sink_and_save(about: str, *, deprecated: bool = False, extension: Extension | None = None) -> tuple[Key, ...]:
    """Return the keys ``sink`` and ``save``, its first name."""
    about_save = 'An older name of "sink"; it has no effect without a kind of store.'
    return (
        Key("sink", about, Nested("sinks"), deprecated=deprecated, extension=extension),
        Key("save", about_save, Nested("saves"), deprecated=True),
    )
