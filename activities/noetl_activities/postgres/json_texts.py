"""Reads strings for columns and parameters of type json.

Templates often pass JSON as text: ``"{{ page | tojson }}"``. Postgres reads such a text as the value, and so does this
module. A text that is no JSON is a value, too: it becomes a JSON string.
"""

from __future__ import annotations

import json
from typing import Any

from noetl_activities.errors import ConfigError
from noetl_activities.json_limits import exceeded_limit
from noetl_activities.tool import Json

__all__ = ["is_json_type", "json_content"]

_STARTS = ("{", "[", '"')
"""The first characters of texts that are read. Others, as ``5`` or ``true``, are more often text than JSON."""


def is_json_type(type_: str) -> bool:
    """Whether a type, in the notation of Postgres, is json or jsonb."""
    return type_ in ("json", "jsonb")


def json_content(value: Json) -> Json:
    """Return the value of a string that is JSON for a mapping, a list or a string; any other value unchanged. Raises
    ConfigError if it has too many values, or is nested too deep.
    """
    if not isinstance(value, str) or not value.lstrip().startswith(_STARTS):
        return value
    if limit := exceeded_limit(value):
        raise ConfigError(f"a text for a json column is {limit}: pass the value without tojson")
    try:
        content: Json = json.loads(value, parse_constant=_refuse_constant)
    except ValueError:
        return value
    return content


def _refuse_constant(name: str) -> Any:
    """NaN and Infinity are no JSON for Postgres."""
    raise ValueError(name)
