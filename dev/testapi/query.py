"""Typed query parameters: an invalid one gives status 422 and is named."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request

__all__ = ["number", "real", "required", "text"]


def number(request: Request, name: str, default: int, least: int = 0) -> int:
    """The integer parameter ``name``; 422 when it is no integer or below ``least``."""
    raw = request.query_params.get(name)
    if raw is None:
        return default
    try:
        value = int(raw)
    except ValueError:
        raise HTTPException(422, f"{name} must be an integer, not {raw!r}") from None
    if value < least:
        raise HTTPException(422, f"{name} must be at least {least}")
    return value


def real(request: Request, name: str, default: float, most: float) -> float:
    """The number ``name`` in seconds, between 0 and ``most``; 422 otherwise."""
    raw = request.query_params.get(name)
    if raw is None:
        return default
    try:
        value = float(raw)
    except ValueError:
        raise HTTPException(422, f"{name} must be a number, not {raw!r}") from None
    if not 0 <= value <= most:
        raise HTTPException(422, f"{name} must be between 0 and {most:g}")
    return value


def text(request: Request, name: str, default: str = "") -> str:
    """The text parameter ``name``."""
    return request.query_params.get(name, default)


def required(request: Request, name: str) -> str:
    """The text parameter ``name``; 422 when it is missing."""
    value = request.query_params.get(name)
    if not value:
        raise HTTPException(422, f"query parameter {name} is required")
    return value
