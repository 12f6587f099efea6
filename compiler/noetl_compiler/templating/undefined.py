"""The use of a name that is not there."""

from __future__ import annotations

from jinja2.exceptions import UndefinedError

__all__ = ["AbsentPartError", "UndefinedNameError"]


class UndefinedNameError(UndefinedError):
    """An undefined name was used; ``name`` is its last part."""

    def __init__(self, name: str, message: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class AbsentPartError(UndefinedNameError):
    """Something was computed with a part that this outcome does not have (absent.py): no mistake of the playbook."""
