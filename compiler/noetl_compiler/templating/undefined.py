"""Undefined names, and absent parts of an outcome: the HTTP status after a connection error, the error kind after a
success.

An absent part renders as none, so ``{{ output.error.retryable }}`` and ``{{ output.http.status }}`` can always be
tested and rendered. Arithmetic and ordering raise: ``output.http.status >= 500`` after a connection error is
indeterminate, as with an undefined name, but is not reported as a mistake of the playbook.
"""

from __future__ import annotations

from typing import Any, NoReturn

from jinja2.exceptions import UndefinedError

__all__ = ["Absent", "AbsentPartError", "UndefinedNameError"]


class UndefinedNameError(UndefinedError):
    """An undefined name was used; ``name`` is its last part."""

    def __init__(self, name: str, message: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class AbsentPartError(UndefinedNameError):
    """An operation on an absent part of an outcome (:class:`Absent`); not a mistake of the playbook."""


class Absent:
    """An absent part of an outcome: None in values and tests; ordering and arithmetic raise AbsentPartError."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def materialise(self) -> None:
        """Return its JSON value, null."""

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Absent)

    def __hash__(self) -> int:
        return hash(None)

    def __str__(self) -> str:
        return "None"

    __repr__ = __str__

    def _refuse(self, *_operands: Any) -> NoReturn:
        raise AbsentPartError(self._name)

    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __pos__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _refuse
