"""The request of a run from ``--payload`` and ``--set``: sizes are checked, and errors are UsageErrors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import click

from noetl_activities import json_limits
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic
from noetl_compiler.graph import Json
from noetl_compiler.printable import printable_line
from noetl_compiler.reader import MAX_DEPTH, read, to_json
from noetl_compiler.regular_file import read_regular
from noetl_compiler.source import SourceFile
from noetl_temporal.cli.json_text import decode_json
from noetl_temporal.limits import STORED_BYTES

__all__ = ["read_payload", "read_value", "truncate"]

_MAX_CHARACTERS = 80
_LONG_NUMBER = re.compile(r"[0-9]{19}")


def read_payload(payload: str | None, settings: Iterable[str]) -> dict[str, Json]:
    """Return the payload's object with every ``a.b=value`` of ``settings`` set in it, in order."""
    request = _parse_object(payload) if payload else {}
    remaining = json_limits.MAX_VALUES
    for setting in settings:
        keys, value = _parse_setting(setting)
        remaining -= sum(1 for _ in _walk_values(value))
        if remaining < 0:
            raise click.UsageError(f"--set has more than {json_limits.MAX_VALUES:,} values in all")
        _set_value_at(request, keys, value)
    return request


# ---- --payload --------------------------------------------------------------------------------------------------


def _parse_object(payload: str) -> dict[str, Json]:
    text, origin = (_read_file(payload[1:]), payload[1:]) if payload.startswith("@") else (payload, "--payload")
    if excess := json_limits.exceeded_limit(text):
        raise click.UsageError(
            f"{origin} is too large ({excess}): keep data in a file or a table, and read it in a task"
        )
    try:
        value = decode_json(text)
    except ValueError as error:
        hint = f": to read a file, write --payload @{payload}" if Path(payload).suffix == ".json" else ""
        raise click.UsageError(f"{origin} is not JSON: {error}{hint}") from None
    if _LONG_NUMBER.search(text) and not all(_is_64_bit(element) for _, element in _walk_values(value)):
        raise click.UsageError(f"{origin} has an integer of more than 64 bits: write it as a string")
    if not isinstance(value, dict):
        raise click.UsageError(f'{origin} must be a JSON object, such as \'{{"city": "Oslo"}}\'')
    return cast("dict[str, Json]", value)


def _is_64_bit(value: Json) -> bool:
    return not isinstance(value, int) or -(2**63) <= value < 2**64


def _read_file(name: str) -> str:
    try:
        data = read_regular(Path(name), STORED_BYTES + 1)
        if len(data) > STORED_BYTES:
            raise click.UsageError(f"--payload: {name} has more than {STORED_BYTES:,} bytes")
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        raise click.UsageError(f"--payload: no such file: {name!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise click.UsageError(f"--payload: cannot read {name}: {reason}") from None


# ---- --set ------------------------------------------------------------------------------------------------------


def _parse_setting(setting: str) -> tuple[list[str], Json]:
    """Parse ``a.b=3`` to the names ``a`` and ``b``, and the value 3."""
    path, equals, raw = setting.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys) or printable_line(path) != path:
        raise click.UsageError(f"--set takes name=value, such as --set city=Oslo; got {_quote(setting)}")
    return keys, read_value("--set", path, raw, len(keys))


def read_value(option: str, name: str, raw: str, depth: int = 1) -> Json:
    """Parse YAML as in playbooks: 3 is a number, [a, b] a list, and a date stays a string.

    ``depth`` is the number of levels above the value. Raises click.UsageError.
    """
    if not raw.strip():
        return None
    root, diagnostics = read(SourceFile(option, raw))
    if root is None or diagnostics:
        raise click.UsageError(
            f"{option} {truncate(name)}: {_quote(raw)} is not a YAML value{_first_message(diagnostics)}"
        )
    value = to_json(root)
    if depth + max((level for level, _ in _walk_values(value)), default=0) > MAX_DEPTH:
        raise click.UsageError(f"{option} {truncate(name)} has more than {MAX_DEPTH} levels")
    return value


def _first_message(diagnostics: list[Diagnostic]) -> str:
    """Return the first diagnostic and its hint. The hint for a playbook that is too large does not apply to a value."""
    first = diagnostics[0]
    has_hint = first.hint and first.code is not Code.BUDGET_EXCEEDED
    return f": {first.message}{f' ({first.hint})' if has_hint else ''}"


def _set_value_at(request: dict[str, Json], keys: list[str], value: Json) -> None:
    for key in keys[:-1]:
        child: Json = request.setdefault(key, {})
        if not isinstance(child, dict):
            raise click.UsageError(
                f"--set {truncate('.'.join(keys))}: {key!r} already has a value that is not a mapping"
            )
        request = cast("dict[str, Json]", child)
    request[keys[-1]] = value


def _walk_values(value: Json) -> Iterator[tuple[int, Json]]:
    """Yield the value and all values in it, each with the number of lists and mappings around it."""
    remaining: list[tuple[int, Json]] = [(0, value)]
    while remaining:
        level, element = remaining.pop()
        yield level, element
        if isinstance(element, dict):
            remaining.extend((level + 1, child) for child in cast("dict[str, Json]", element).values())
        elif isinstance(element, list):
            remaining.extend((level + 1, child) for child in cast("list[Json]", element))


def _quote(text: str) -> str:
    return repr(truncate(text))


def truncate(text: str) -> str:
    """Shorten a name or value for an error message."""
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
