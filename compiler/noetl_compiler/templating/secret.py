"""A secret in a template: a reference that can be rendered and passed on, but not read."""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from noetl_compiler.secret_references import SecretReference, format_reference

__all__ = ["Secret", "SecretUseError"]


class SecretUseError(Exception):
    """A template tries to read the value of a secret."""


class Secret:
    """A reference to a secret, sealed with the ``key`` of the run. Its parts are secrets too."""

    __slots__ = ("_key", "_reference")

    def __init__(self, reference: SecretReference, key: str) -> None:
        self._reference = reference
        self._key = key

    def __getitem__(self, part: str | int) -> Secret:
        path = (*self._reference.path, part)
        return Secret(msgspec.structs.replace(self._reference, path=path), self._key)

    def materialise(self) -> str:
        """Return the reference as text."""
        return format_reference(self._reference, self._key)

    def as_json(self) -> str:
        """Return the text of a reference to the JSON encoding of the secret."""
        return format_reference(msgspec.structs.replace(self._reference, form="json"), self._key)

    def __add__(self, other: str) -> str:
        return self.materialise() + other

    def __radd__(self, other: str) -> str:
        return other + self.materialise()

    def _refuse(self, *_operands: Any) -> NoReturn:
        raise SecretUseError(
            f'"{self._reference.label}" is a secret, whose value is only available to the called tool: a template can '
            "pass it on, but neither change it nor test it"
        )

    __bool__ = __str__ = __len__ = __iter__ = __contains__ = __int__ = __float__ = __index__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __sub__ = __mul__ = __rmul__ = __mod__ = __truediv__ = __neg__ = __pos__ = __abs__ = __round__ = _refuse
