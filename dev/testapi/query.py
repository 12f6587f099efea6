"""Typed query parameters: an invalid one gives status 422 and is named."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request

__all__ = ["number", "real", "required_text", "text"]


def number(request: Request, name: str, default: int, minimum: int = 0) -> int:
    """The integer parameter ``name``; 422 when it is no integer or below ``minimum``."""
    raw_value = request.query_params.get(name)
    if raw_value is None:
        return default
    try:
        value = int(raw_value)
    except ValueError:
        raise HTTPException(422, f"{name} must be an integer, not {raw_value!r}") from None
    if value < minimum:
        raise HTTPException(422, f"{name} must be at least {minimum}")
    return value


def real(request: Request, name: str, default: float, maximum: float) -> float:
    """The number ``name`` in seconds, between 0 and ``maximum``; 422 otherwise."""
    raw_value = request.query_params.get(name)
    if raw_value is None:
        return default
    try:
        value = float(raw_value)
    except ValueError:
        raise HTTPException(422, f"{name} must be a number, not {raw_value!r}") from None
    if not 0 <= value <= maximum:
        raise HTTPException(422, f"{name} must be between 0 and {maximum:g}")
    return value


def text(request: Request, name: str, default: str = "") -> str:
    """The text parameter ``name``."""
    return request.query_params.get(name, default)


def required_text(request: Request, name: str) -> str:
    """The text parameter ``name``; 422 when it is missing."""
    value = request.query_params.get(name)
    if not value:
        raise HTTPException(422, f"query parameter {name} is required")
    return value
