"""A part of an outcome that is not there: the status of a call that met no server, the kind of an error of none.

It passes for none wherever a value is wanted, so ``{{ output.error.retryable }}`` and ``{{ output.http.status }}`` can
always be asked and written down. Nothing can be computed with it: ``output.http.status >= 500`` after a connection
error has no answer, which is the same as with an undefined name, and no mistake of the playbook.
"""

from __future__ import annotations

from typing import Any, NoReturn

from noetl_compiler.templating.undefined import AbsentPartError

__all__ = ["Absent"]


class Absent:
    """None in every value and every question; AbsentPartError with ``name`` in order and arithmetic."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def materialise(self) -> None:
        """What it is as JSON."""

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
