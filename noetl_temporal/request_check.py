"""Checks the request of a run before it is sent: Temporal's errors name neither the value nor the limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.unicode_text import is_unicode

__all__ = ["PayloadError", "check_payload"]


class PayloadError(ValueError):
    """A payload that no run can have; the message has the place."""


def check_payload(payload: Mapping[str, Json], limit: int) -> None:
    """Raises PayloadError for text that is not Unicode, and for over ``limit`` bytes of JSON."""
    try:
        size = len(msgspec.json.encode(payload))
    except UnicodeEncodeError:
        place = next(_broken(dict(payload), "payload"), "payload")
        raise PayloadError(
            f"{place} has a lone surrogate, which is not a character: decode the text with errors='replace'"
        ) from None
    if size > limit:
        raise PayloadError(
            f"the payload has {size:,} bytes as JSON, over {limit:,}: keep data in a file or a table, and read it in a "
            "task"
        )


def _broken(value: Json, place: str) -> Iterator[str]:
    """Yield places of the texts, and of the mappings with a name, that are not Unicode."""
    if isinstance(value, str) and not is_unicode(value):
        yield place
    elif isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, Json]", value).items():
            if is_unicode(name):
                yield from _broken(inner, f"{place}.{name}")
            else:
                yield f"a name in {place}"
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(cast("list[Json]", value)):
            yield from _broken(inner, f"{place}[{index}]")
