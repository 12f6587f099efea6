"""``sink``: where results are stored, under all the names its fields ever had."""

from __future__ import annotations

from dataclasses import replace

from noetl_compiler.dialects.sinks import EVENT_KINDS, SINK_KINDS
from noetl_compiler.schema.model import Model, Models, Property, Shape, without_effect
from noetl_compiler.schema.policies import GUARD
from noetl_compiler.schema.values import CONDITION, any_of, has, list_of, one_or_more, open_words, ref, told_words

__all__ = ["SINKS", "SINK_PROPERTIES", "STORE_KEYS", "sink_and_save"]

STORE_KEYS = ("tool", "type", "kind", "storage", "backend")
"""Where a sink may say what it stores in."""

_KIND = open_words(*sorted(SINK_KINDS | EVENT_KINDS - {""}))
_KINDS = Property("kind", "The kind of store.", _KIND, older=("type", "backend"))
_INNER_KINDS = replace(_KINDS, older=(*_KINDS.older, "tool"))

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
        told_words(
            {
                "insert": "Rows are added; the default.",
                "append": "Rows are added.",
                "upsert": "A row whose key is there already is updated, any other is added.",
                "replace": "The new rows stand in place of all others.",
                "merge": "Rows are merged with those of the same key.",
                "update": 'An older word for "upsert".',
                "overwrite": 'An older word for "replace".',
            }
        ),
    ),
    Property("auth", "The name of the credential to store with.", older=("credential", "connection")),
    Property("table", "The table that rows are stored in."),
    Property("key", "The column or columns that tell one row from another.", older=("keys", "key_columns")),
    Property(
        "data",
        "What is stored, usually a template; the whole result unless given.",
        older=("args", "payload", "values", "with", "from"),
    ),
    Property(
        "statement",
        "The statement to run in place of one made for the table.",
        older=("command", "commands", "sql", "query"),
    ),
    Property("params", "The values bound to the statement's parameters."),
    Property("batch", "How many rows are stored at a time.", older=("chunk_size",)),
    Property("url", "The address that the data is sent to.", older=("endpoint",)),
    Property("method", "The HTTP method to send the data with."),
    Property("headers", "The HTTP headers to send along."),
    Property("code", "The Python code that stores the data."),
    Property("database", "The name or file of the database."),
    Property(
        "level",
        'Whether each call\'s result is stored ("attempt", the default) or that of all calls together ("task").',
        told_words(
            {
                "attempt": "Each call's result is stored, so each page; the default.",
                "task": "The result of all calls together is stored, once.",
            }
        ),
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
        needs=(STORE_KEYS,),
    ),
    Model(
        "sink_tool",
        "The kind of store and its fields.",
        (_INNER_KINDS, *SINK_PROPERTIES),
        needs=((*_INNER_KINDS.names, "storage"),),
    ),
    Shape("sinks", one_or_more(ref("sink"))),
    Shape("saves", any_of({"type": "object", "if": has(*STORE_KEYS), "then": ref("sink")}, list_of(ref("sink")))),
)
