"""``sink``: where results are stored, under all the names its fields ever had."""

from __future__ import annotations

from dataclasses import replace

from noetl_compiler.language.sinks import AUTH_KEYS, EVENT_KINDS, KIND_KEYS, KINDS, VALUE_KEYS
from noetl_compiler.language.words import SINK_LEVELS, SINK_MODES
from noetl_compiler.schema.model import Model, Models, Property, Shape, without_effect
from noetl_compiler.schema.policies import GUARD
from noetl_compiler.schema.values import CONDITION, any_of, has, list_of, one_or_more, open_words, ref, told_words

__all__ = ["SINKS", "SINK_PROPERTIES", "sink_and_save"]

_KIND = open_words(*sorted(KINDS | EVENT_KINDS - {""}))
_KINDS = Property("kind", "The kind of store.", _KIND, older=("type", "backend"))
_INNER_KINDS = replace(_KINDS, older=(*_KINDS.older, "tool"))

_MEANINGS = {
    "table": "The table that rows are stored in.",
    "key": "The column or columns that tell one row from another.",
    "data": "What is stored, usually a template; the whole result unless given.",
    "statement": "The statement to run in place of one made for the table.",
    "params": "The values bound to the statement's parameters.",
    "batch": "How many rows are stored at a time.",
    "url": "The address that the data is sent to.",
    "method": "The HTTP method to send the data with.",
    "headers": "The HTTP headers to send along.",
    "code": "The Python code that stores the data.",
    "database": "The name or file of the database.",
}

SINK_PROPERTIES = (
    Property(
        "storage",
        'An older name of "kind", or a mapping of the kind of store and its fields.',
        any_of(_KIND, ref("sink_tool")),
        deprecated=True,
    ),
    Property(
        "mode",
        'How rows are stored: added ("insert", the default, or "append"), updated where the key is there already '
        '("upsert"), in place of all others ("replace"), or merged by key ("merge").',
        told_words(SINK_MODES.about),
    ),
    Property(AUTH_KEYS[0], "The name of the credential to store with.", older=AUTH_KEYS[1:]),
    *(Property(name, _MEANINGS[name], older=spellings[1:]) for name, spellings in VALUE_KEYS.items()),
    Property(
        "level",
        'Whether each call\'s result is stored ("attempt", the default) or that of all calls together ("task").',
        told_words(SINK_LEVELS.about),
    ),
    GUARD,
    Property("when", 'The condition under which rows are stored; write "guard" instead.', CONDITION, deprecated=True),
    without_effect("concurrency", "the rows of one sink are stored in one go"),
    without_effect("name", "the rows of one sink are stored in one go"),
)


def sink_and_save(about: str, *, deprecated: bool = False) -> tuple[Property, ...]:
    """The sink of a call, and the name that it first had."""
    said = 'An older name of "sink"; without a kind of store it has no effect.'
    return (
        Property("sink", about, ref("sinks"), deprecated=deprecated),
        Property("save", said, ref("saves"), deprecated=True),
    )


SINKS: Models = (
    Model(
        "sink",
        "Stores each result in the same call that made it.",
        (
            Property("tool", "The kind of store, or a mapping of it and its fields.", any_of(_KIND, ref("sink_tool"))),
            _KINDS,
            *SINK_PROPERTIES,
        ),
        needs=(KIND_KEYS,),
    ),
    Model(
        "sink_tool",
        "The kind of store and its fields.",
        (_INNER_KINDS, *SINK_PROPERTIES),
        needs=((*_INNER_KINDS.names, "storage"),),
    ),
    Shape("sinks", one_or_more(ref("sink"))),
    Shape("saves", any_of({"type": "object", "if": has(*KIND_KEYS), "then": ref("sink")}, list_of(ref("sink")))),
)
