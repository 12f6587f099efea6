"""Resolve YAML scalars to JSON values, by the rules of PyYAML's SafeLoader (YAML 1.1).

Dates stay strings. :class:`ScalarError` is raised for a number that is not portable JSON (an integer over 64 bits,
infinity, not-a-number) and for a tag whose value is not JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.representer import SafeRepresenter
from yaml.resolver import Resolver

from noetl_compiler.graph import Json

__all__ = ["ScalarError", "is_merge", "is_plain_text", "resolve", "scalar_text", "short_tag"]

_PREFIX = "tag:yaml.org,2002:"
_MAX_NUMBER_CHARS = 100  # sexagesimal numbers cost the square of their length
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1


class ScalarError(ValueError):
    """The scalar has no JSON value; ``hint`` is the remedy."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


_RESOLVER: Any = Resolver()
_CONSTRUCTOR = SafeConstructor()
_REPRESENTER: Any = SafeRepresenter()
_CONSTRUCTORS: dict[str, Callable[[Any], Json]] = {
    "null": _CONSTRUCTOR.construct_yaml_null,
    "bool": _CONSTRUCTOR.construct_yaml_bool,
    "int": _CONSTRUCTOR.construct_yaml_int,
    "float": _CONSTRUCTOR.construct_yaml_float,
}
_NON_STRING_STARTS = frozenset(Resolver.yaml_implicit_resolvers)
"""First characters of plain scalars that may be something else than a string."""

_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)

_STRING_KINDS = frozenset({"str", "timestamp", "merge", "value"})
_SUPPORTED_TAGS = frozenset({"str", *_CONSTRUCTORS})


def resolve(text: str, tag: str | None, implicit: tuple[bool, bool]) -> Json:
    """Return the JSON value of a scalar from the fields of its event. Raises :class:`ScalarError` if it has none."""
    if tag in (None, "!"):
        if not implicit[0] or text[:1] not in _NON_STRING_STARTS:
            return text
        if _DECIMAL.fullmatch(text):  # the most frequent kind that is not a string
            return int(text)
        kind = _kind(text, implicit)
        return text if kind in _STRING_KINDS else _construct_checked(text, kind)
    kind = str(tag).removeprefix(_PREFIX)
    if kind not in _SUPPORTED_TAGS:
        raise ScalarError(f'the tag "{short_tag(str(tag))}" is not supported', "remove the tag")
    return text if kind == "str" else _construct_checked(text, kind)


def is_plain_text(text: str) -> bool:
    """Whether YAML reads this text as a string without quotes."""
    return _kind(text, (True, False)) == "str"


def scalar_text(value: Json) -> str:
    """Return the text of a scalar with this JSON value. A string is returned as it is, and may need quotes."""
    if isinstance(value, str):
        return value
    return str(_REPRESENTER.represent_data(value).value)


def is_merge(text: str, tag: str | None, implicit: tuple[bool, bool]) -> bool:
    """Whether a key is YAML's merge key ``<<``."""
    return text == "<<" and tag is None and implicit[0]


def short_tag(tag: str) -> str:
    """Return a tag in its short form: ``!!binary`` for ``tag:yaml.org,2002:binary``."""
    return f"!!{tag.removeprefix(_PREFIX)}" if tag.startswith(_PREFIX) else tag


def _kind(text: str, implicit: tuple[bool, bool]) -> str:
    return str(_RESOLVER.resolve(yaml.ScalarNode, text, implicit)).removeprefix(_PREFIX)


def _construct_checked(text: str, kind: str) -> Json:
    if len(text) > _MAX_NUMBER_CHARS:
        raise ScalarError("the number is too long", "put it in quotes to keep it as a string")
    try:
        value: Json = _CONSTRUCTORS[kind](yaml.ScalarNode(_PREFIX + kind, text))
    except (ValueError, KeyError, IndexError, OverflowError):
        raise ScalarError(f'"{text}" is not a valid {kind}', "remove the tag or correct the value") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ScalarError(f'"{text}" is not a valid JSON number', "put it in quotes to keep it as a string")
    if isinstance(value, int) and not _MIN_INTEGER <= value <= _MAX_INTEGER:
        raise ScalarError(f'"{text}" needs more than 64 bits', "put it in quotes to keep it as a string")
    return value
