"""Checks the payload of a run before it is sent: Temporal's errors name neither the value nor the limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.unicode_text import is_unicode

__all__ = ["PayloadError", "check_payload"]


class PayloadError(ValueError):
    """The payload is not valid. The message has the path of the invalid value."""


def check_payload(payload: Mapping[str, Json], limit: int) -> None:
    """Raise PayloadError for text that is not Unicode, and for more than ``limit`` bytes of JSON."""
    try:
        size = len(msgspec.json.encode(payload))
    except UnicodeEncodeError:
        path = next(_invalid_text_paths(dict(payload), "payload"), "payload")
        raise PayloadError(
            f"{path} has a lone surrogate, which is not a character: decode the text with errors='replace'"
        ) from None
    if size > limit:
        raise PayloadError(
            f"the payload has {size:,} bytes as JSON, over {limit:,}: keep data in a file or a table, and read it in a "
            "task"
        )


def _invalid_text_paths(value: Json, path: str) -> Iterator[str]:
    """Yield the paths of strings and names that are not Unicode, in the value at ``path``."""
    if isinstance(value, str) and not is_unicode(value):
        yield path
    elif isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, Json]", value).items():
            if is_unicode(name):
                yield from _invalid_text_paths(inner, f"{path}.{name}")
            else:
                yield f"a name in {path}"
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(cast("list[Json]", value)):
            yield from _invalid_text_paths(inner, f"{path}[{index}]")
