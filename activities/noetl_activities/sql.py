"""Splits the SQL of a task, one text or several, into statements."""

from __future__ import annotations

import base64
import binascii
from typing import cast

from sqlglot.errors import SqlglotError
from sqlglot.tokens import Tokenizer

from noetl_activities.errors import ConfigError
from noetl_activities.tool import Json
from noetl_compiler.language.scripts import code_in
from noetl_compiler.language.tool_fields import SQL_COMMANDS

__all__ = [
    "FIELDS",
    "first_statement",
    "has_statement",
    "line_in_task",
    "single_statement_params",
    "split_statements",
    "statements_of",
]

FIELDS = (*SQL_COMMANDS, "sql", "statement", "script")


def has_statement(config: dict[str, Json]) -> bool:
    """Whether the config contains SQL."""
    return any(config.get(name) or config.get(f"{name}_b64") for name in FIELDS)


def first_statement(config: dict[str, Json]) -> str:
    """Return the first SQL text of a task; "" if it is encoded or missing."""
    values = (config.get(name) for name in FIELDS)
    texts = (cast("list[Json]", value)[:1] if isinstance(value, list) else [value] for value in values)
    return next((text for first_texts in texts for text in first_texts if isinstance(text, str) and text.strip()), "")


def line_in_task(config: dict[str, Json], statement: str, position: int) -> int | None:
    """Return the line, from 1, in the SQL of a task for a ``position``, from 1, in one of its statements.

    None if the line is unknown: the SQL is encoded, or contains the statement more than once.
    """
    text = first_statement(config)
    if text.count(statement) != 1:
        return None
    return text.count("\n", 0, text.index(statement) + position - 1) + 1


def statements_of(config: dict[str, Json], dialect: str) -> list[str]:
    """Return the statements of a task, in order. Raises ConfigError if there is none."""
    statements: list[str] = []
    for name in FIELDS:
        value = code_in(config.get(name))
        if isinstance(config.get(f"{name}_b64"), str):
            value = _decode_base64(name, config[f"{name}_b64"])
        texts = cast("list[Json]", value) if isinstance(value, list) else [value]
        for text in texts:
            if isinstance(text, str):
                statements.extend(split_statements(text, dialect))
    if not statements:
        raise ConfigError("no SQL: set command or query")
    return statements


def _decode_base64(name: str, text: str) -> str:
    try:
        return base64.b64decode(text).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"{name}_b64 is not base64 of UTF-8 text") from error


def split_statements(text: str, dialect: str) -> list[str]:
    """Split a text into statements; ``;`` in quotes, dollar quotes and comments is not a separator."""
    try:
        tokens = _tokenizer(dialect).tokenize(text)
    except SqlglotError:
        return [text.strip()]
    statements: list[str] = []
    start, has_tokens = 0, False
    for token in tokens:
        if token.token_type.name == "SEMICOLON":
            if has_tokens:
                statements.append(text[start : token.start].strip())
            start, has_tokens = token.end + 1, False
        else:
            has_tokens = True
    return [*statements, text[start:].strip()] if has_tokens else statements


def _tokenizer(dialect: str) -> Tokenizer:
    from sqlglot.dialects.dialect import Dialect

    return Dialect.get_or_raise(dialect).tokenizer_class(dialect=dialect)


def single_statement_params(params: Json, statements: list[str]) -> list[Json]:
    """Return the values for the placeholders of the single statement. Raises ConfigError if they are not a list, or if
    there are several statements.
    """
    if params is not None and (not isinstance(params, list) or len(statements) > 1):
        raise ConfigError("params must be a list, and there must be exactly one statement")
    return list(cast("list[Json]", params or []))
