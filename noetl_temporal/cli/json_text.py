"""JSON on the command line, with errors in plain words."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

__all__ = ["decode_json"]


def decode_json(text: str) -> Any:
    """Return the value of a JSON text. Raises ValueError, whose message says what is wrong and, if it is the syntax,
    where.
    """
    try:
        return msgspec.json.decode(text)
    except ValueError as error:
        raise ValueError(_reason(text) or str(error)) from None


def _reason(text: str) -> str:
    """Return why msgspec refuses a text, according to Python's own parser, which says where an error is; empty if that
    parser does not know.
    """
    try:
        json.loads(text, parse_float=_finite_number, parse_constant=_finite_number)
    except json.JSONDecodeError as error:
        return f"{error.msg[0].lower()}{error.msg[1:]}, at line {error.lineno}, column {error.colno}"
    except ValueError as error:
        return "a number has too many digits" if "digits" in str(error) else str(error)
    return "an escape such as \\ud800 is half of a character" if "\\u" in text else ""


def _finite_number(text: str) -> float:
    if math.isfinite(number := float(text)):
        return number
    raise ValueError(f"{text[:20]} is not a finite number")
