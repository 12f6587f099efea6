"""The request of a run: ``--payload`` and ``--set``, read and merged. A wrong one is a UsageError."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import click
import yaml

from noetl_compiler.graph import Json

__all__ = ["read_payload"]


def read_payload(payload: str | None, settings: Iterable[str]) -> dict[str, Json]:
    """The payload's object with every ``a.b=value`` of ``settings`` set in it, in order."""
    request = _object(payload) if payload else {}
    for setting in settings:
        _apply(request, setting)
    return request


def _object(payload: str) -> dict[str, Json]:
    text, where = (_file(payload[1:]), payload[1:]) if payload.startswith("@") else (payload, "--payload")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{where} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise click.UsageError(f'{where} must be a JSON object, such as \'{{"city": "Oslo"}}\'')
    return cast("dict[str, Json]", found)


def _file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise click.UsageError(f"--payload: there is no file {name!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise click.UsageError(f"--payload: cannot read {name}: {why}") from None


def _apply(request: dict[str, Json], setting: str) -> None:
    path, equals, raw = setting.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise click.UsageError(f"--set takes name=value, such as --set city=Oslo; got {setting!r}")
    for key in keys[:-1]:
        inner: Json = request.setdefault(key, {})
        if not isinstance(inner, dict):
            raise click.UsageError(f"--set {path}: {key!r} has a value already and no fields")
        request = cast("dict[str, Json]", inner)
    request[keys[-1]] = _value(path, raw)


def _value(path: str, raw: str) -> Json:
    """YAML, so that 3 is a number and [a, b] a list; a date stays the text it is."""
    try:
        value = yaml.safe_load(raw)
        if isinstance(value, datetime.date):
            return raw
        return json.loads(json.dumps(value, allow_nan=False, default=str))
    except (yaml.YAMLError, ValueError, TypeError):
        raise click.UsageError(f"--set {path}: {raw!r} is not a YAML value; quote it to make it text") from None
