"""One-line summaries of calls: ``GET https://api.example.com/items``, ``insert into etl_page``.

URLs, statements and commands may contain credentials. So user info and query are removed from URLs, and statements and
commands are truncated at their first quote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import cast

from noetl_compiler.conditions import strip_braces
from noetl_compiler.graph import Json, Task
from noetl_compiler.language.scripts import URI_KEYS
from noetl_compiler.language.tools import SQL_COMMANDS, SQL_KINDS
from noetl_compiler.preview.phrases import truncate

__all__ = ["summarise_call"]

_MAX_CHARS = 80
_COMMENT = re.compile(r"\s*(?:--[^\n]*\n|/\*.*?\*/|\{#.*?#\})", re.DOTALL)
_STATEMENT_END = re.compile(r"[('\";]|\s+(?:values|set|as|with)\b", re.IGNORECASE)
_SELECT = re.compile(r"\s*(?:select|with)\b[^;]*?\bfrom\s+([\w.]+)", re.IGNORECASE)
_USER = re.compile(r"//[^/@\s{}]*@")
_QUERY = re.compile(r"\?(?![^{]*\}\}).*")


def summarise_call(task: Task) -> str:
    """Summarise the call of a task in at most 80 characters; return "" for kinds without a summary, such as python."""
    summarise = _CALLS.get(task.kind)
    config: Json = task.config.data
    if isinstance(config, dict) and isinstance(script := cast("dict[str, Json]", config).get("script"), dict):
        return _script_source(cast("dict[str, Json]", script))
    summary = summarise(cast("Mapping[str, Json]", config)) if summarise and isinstance(config, dict) else ""
    return truncate(summary, _MAX_CHARS)


def _script_source(script: Mapping[str, Json]) -> str:
    """Return the URI of external code, and the first 12 digits of its SHA-256 once it has been fetched."""
    source: Json = script.get("source")
    endpoint = cast("dict[str, Json]", source).get("endpoint") if isinstance(source, dict) else None
    address = _QUERY.sub(
        "", _USER.sub("//", strip_braces(str(endpoint or next((script[key] for key in URI_KEYS if key in script), ""))))
    )
    digest = script.get("sha256")
    state = f"sha256 {str(digest)[:12]}" if digest else "not fetched yet"
    return f"code from {address[:_MAX_CHARS]} ({state})"


def _address(config: Mapping[str, Json]) -> str:
    address = _QUERY.sub("", _USER.sub("//", strip_braces(_text(config, "url"))))
    return f"{strip_braces(_text(config, 'method')).upper() or 'GET'} {address}" if address else ""


def _statement(config: Mapping[str, Json]) -> str:
    """Summarise the first statement and count the others."""
    field = next((field for field in SQL_COMMANDS if _text(config, field)), "")
    others = len(_values(config, field)) - 1
    return f"{_beginning(_text(config, field))}{f' and {others} more' if others else ''}"


def _beginning(text: str) -> str:
    while comment := _COMMENT.match(text):
        text = text[comment.end() :]
    if text.lstrip().startswith("{{"):
        return strip_braces(text)
    if table := _SELECT.match(text):
        return f"select from {table[1]}"
    return " ".join(_STATEMENT_END.split(text.strip(), maxsplit=1)[0].split())


def _first_field(*fields: str) -> Callable[[Mapping[str, Json]], str]:
    return lambda config: next((strip_braces(text) for field in fields if (text := _text(config, field))), "")


def _text(config: Mapping[str, Json], field: str) -> str:
    """Return a field's text, or the first text of a list."""
    first: Json = next(iter(_values(config, field)), "")
    return first if isinstance(first, str) else ""


def _values(config: Mapping[str, Json], field: str) -> list[Json]:
    value: Json = config.get(field)
    return cast("list[Json]", value) if isinstance(value, list) else [value]


def _wait_text(config: Mapping[str, Json]) -> str:
    """Summarise a wait: ``for the signal paid``, ``until workload.opens``, ``for 4s``."""
    words = {"signal": "for the signal", "until": "until", "duration": "for"}
    return next((f"{word} {strip_braces(str(config[field]))}" for field, word in words.items() if field in config), "")


_CALLS: Mapping[str, Callable[[Mapping[str, Json]], str]] = {
    "http": _address,
    **dict.fromkeys((*sorted(SQL_KINDS), "shell"), _statement),
    "playbook": _first_field("path"),
    "wait": _wait_text,
    "approval": _first_field("message"),
    "secrets": _first_field("secret_name", "name"),
    "container": _first_field("image"),
}
