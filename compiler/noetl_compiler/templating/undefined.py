"""Errors for the use of undefined names."""

from __future__ import annotations

from jinja2.exceptions import UndefinedError

__all__ = ["AbsentPartError", "UndefinedNameError"]


class UndefinedNameError(UndefinedError):
    """An undefined name was used; ``name`` is its last part."""

    def __init__(self, name: str, message: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class AbsentPartError(UndefinedNameError):
    """An operation on a part that the outcome does not have (absent.py); not a mistake of the playbook."""
