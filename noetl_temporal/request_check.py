"""Checks the request of a run before it is sent: Temporal's errors name neither the value nor the limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.unicode_text import is_unicode

__all__ = ["PayloadError", "check_payload"]


class PayloadError(ValueError):
    """The payload is not valid; the message names the place."""


def check_payload(payload: Mapping[str, Json], limit: int) -> None:
    """Raise PayloadError for text that is not Unicode, and for more than ``limit`` bytes of JSON."""
    try:
        size = len(msgspec.json.encode(payload))
    except UnicodeEncodeError:
        place = next(_invalid_places(dict(payload), "payload"), "payload")
        raise PayloadError(
            f"{place} has a lone surrogate, which is not a character: decode the text with errors='replace'"
        ) from None
    if size > limit:
        raise PayloadError(
            f"the payload has {size:,} bytes as JSON, over {limit:,}: keep data in a file or a table, and read it in a "
            "task"
        )


def _invalid_places(value: Json, place: str) -> Iterator[str]:
    """Yield the places of strings and names that are not Unicode."""
    if isinstance(value, str) and not is_unicode(value):
        yield place
    elif isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, Json]", value).items():
            if is_unicode(name):
                yield from _invalid_places(inner, f"{place}.{name}")
            else:
                yield f"a name in {place}"
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(cast("list[Json]", value)):
            yield from _invalid_places(inner, f"{place}[{index}]")
