"""What a YAML scalar means: the resolution of PyYAML's SafeLoader (YAML 1.1) narrowed to JSON.

Dates stay text. A number that JSON cannot carry everywhere (an integer over 64 bits, infinity, not-a-number)
and a tag that would make something else than JSON are refused with a :class:`ScalarError`, which says what to
do.
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

__all__ = ["ScalarError", "is_merge", "is_plain_text", "resolve", "short_tag", "written"]

_PREFIX = "tag:yaml.org,2002:"
_LONGEST_NUMBER = 100  # sexagesimal numbers cost the square of their length
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1


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
_BEGINNINGS = frozenset(Resolver.yaml_implicit_resolvers)
"""Characters with which a plain scalar may begin that is no text."""

_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)

_TEXT = frozenset({"str", "timestamp", "merge", "value"})
_EXPLICIT = frozenset({"str", *_CONSTRUCTORS})


def resolve(text: str, tag: str | None, implicit: tuple[bool, bool]) -> Json:
    """Return the JSON value of a scalar as an event gives it; :class:`ScalarError` when there is none."""
    if tag in (None, "!"):
        if not implicit[0] or text[:1] not in _BEGINNINGS:
            return text
        if _DECIMAL.fullmatch(text):  # by far the most of what is no text
            return int(text)
        kind = _kind(text, implicit)
        return text if kind in _TEXT else _number_checked(text, kind)
    kind = str(tag).removeprefix(_PREFIX)
    if kind not in _EXPLICIT:
        raise ScalarError(f'the tag "{short_tag(str(tag))}" is not supported', "remove the tag")
    return text if kind == "str" else _number_checked(text, kind)


def is_plain_text(text: str) -> bool:
    """Whether every YAML reader takes this text for a string when it has no quotes."""
    return _kind(text, (True, False)) == "str"


def written(value: Json) -> str:
    """Return the text of a scalar with this JSON value. A string is returned as it is, and may need quotes."""
    if isinstance(value, str):
        return value
    return str(_REPRESENTER.represent_data(value).value)


def is_merge(text: str, tag: str | None, implicit: tuple[bool, bool]) -> bool:
    """Whether a key is YAML's merge key ``<<``."""
    return text == "<<" and tag is None and implicit[0]


def short_tag(tag: str) -> str:
    """Return a tag as people write it: ``!!binary`` for ``tag:yaml.org,2002:binary``."""
    return f"!!{tag.removeprefix(_PREFIX)}" if tag.startswith(_PREFIX) else tag


def _kind(text: str, implicit: tuple[bool, bool]) -> str:
    return str(_RESOLVER.resolve(yaml.ScalarNode, text, implicit)).removeprefix(_PREFIX)


def _number_checked(text: str, kind: str) -> Json:
    if len(text) > _LONGEST_NUMBER:
        raise ScalarError("the number is too long", "put it in quotes to keep it as text")
    try:
        value: Json = _CONSTRUCTORS[kind](yaml.ScalarNode(_PREFIX + kind, text))
    except (ValueError, KeyError, IndexError, OverflowError):
        raise ScalarError(f'"{text}" is not a valid {kind}', "remove the tag or correct the value") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ScalarError(f'"{text}" is not a valid JSON number', "put it in quotes to keep it as text")
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        raise ScalarError(f'"{text}" needs more than 64 bits', "put it in quotes to keep it as text")
    return value
