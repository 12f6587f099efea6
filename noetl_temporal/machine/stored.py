"""Values that lie outside of the machine: its state has where they lie, and no more (dev/decisions/0027).

How it works. A large result of a call, the items of a long loop and its results are kept in the payload store, each
once. The state has a ``Stored`` in their place, which names the parts: it is small, and is copied instead of the value
wherever the state is copied.

A template that reads inside of such a value needs it here. Then NotLoaded is raised, which no template and no decision
catches. The engine undoes what the fact has changed so far, commands Load, and takes the fact again once the value has
come (engine.py). What was loaded is dropped when the facts that waited for it have been taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, cast

import msgspec

from noetl_compiler.graph import Json
from noetl_compiler.templates import Deferred, TemplateFailure
from noetl_temporal.machine.call import Outcome, Stored
from noetl_temporal.shortening import abridged

__all__ = [
    "AtHand",
    "LoadedValue",
    "NotLoaded",
    "load_id",
    "preview",
    "result_alone",
    "result_in",
    "stored_in",
    "using",
    "view_of",
    "whole_result",
    "with_result",
    "with_stored",
]

_OWN = ("result", "stored")
"""The keys of an outcome that are about its result."""


class NotLoaded(BaseException):
    """A value is needed that is not here. It is no Exception, so that whoever handles a failure does not handle it."""

    def __init__(self, stored: Stored) -> None:
        super().__init__(load_id(stored))
        self.stored = stored


class LoadedValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that was fetched; an ``error`` says why it cannot be."""

    value: Json = None
    error: str = ""


class AtHand(NamedTuple):
    """The values that a machine has ``loaded``, by id; ``limit`` is the bytes that one may have."""

    loaded: Mapping[str, LoadedValue]
    limit: int

    def value(self, stored: Stored) -> Json:
        """Raises NotLoaded for what is not here, TemplateFailure for what cannot be."""
        if stored.bytes > self.limit:
            raise TemplateFailure(
                f"a stored value of {stored.bytes:,} bytes is read, over {self.limit:,}: "
                "read it from a sink, or pass on less of it"
            )
        found = self.loaded.get(load_id(stored))
        if found is None:
            raise NotLoaded(stored)
        if found.error:
            raise TemplateFailure(found.error)
        return found.value


_HERE: ContextVar[AtHand | None] = ContextVar("loaded values", default=None)


@contextmanager
def using(values: AtHand) -> Generator[None]:
    """What is read inside of this block is read from these values: templates reach them through many layers of views,
    none of which knows its machine.
    """
    token = _HERE.set(values)
    try:
        yield
    finally:
        _HERE.reset(token)


def load_id(stored: Stored) -> str:
    """Of the activity that loads the value; the same for the same value."""
    told = msgspec.json.encode(stored.parts)
    return f"load:{hashlib.sha256(told).hexdigest()[:32]}"


def stored_in(outcome: Mapping[str, Any]) -> Stored | None:
    """Where the outcome's result lies, None for one that is here."""
    found = outcome.get("stored")
    return None if found is None else msgspec.convert(found, Stored)


def with_result(outcome: Outcome, result: Json) -> Outcome:
    """The outcome with another result."""
    return {**{name: value for name, value in outcome.items() if name not in _OWN}, "result": result}


def with_stored(outcome: Outcome, stored: Stored | None) -> Outcome:
    """The outcome with a result that lies elsewhere; unchanged without any."""
    if stored is None:
        return outcome
    return {**{name: value for name, value in outcome.items() if name not in _OWN}, "stored": _builtins(stored)}


def result_alone(outcome: Mapping[str, Any]) -> Outcome:
    """Nothing of the outcome but its result."""
    return {name: outcome[name] for name in _OWN if name in outcome}


def view_of(outcome: Mapping[str, Any], view: Callable[[Json], Any]) -> Any:
    """What ``view`` makes of the result: at once when it is here, else once a template uses it."""
    stored = stored_in(outcome)
    if stored is None:
        return view(outcome.get("result"))
    if stored.under:
        return view(_around(stored, Deferred(lambda: _value(stored))))
    return Deferred(lambda: view(_value(stored)))


def result_in(outcome: Mapping[str, Any]) -> Any:
    """The result, deferred where it lies elsewhere."""
    return view_of(outcome, lambda result: result)


def whole_result(outcome: Mapping[str, Any]) -> Json:
    """The result as plain JSON. Raises NotLoaded, TemplateFailure."""
    stored = stored_in(outcome)
    if stored is None:
        return outcome.get("result")
    return _around(stored, _value(stored)) if stored.under else _value(stored)


def preview(outcome: Mapping[str, Any], limit: int) -> Json:
    """The result for a row of the log: its size, where it has more than ``limit`` bytes or lies elsewhere."""
    stored = stored_in(outcome)
    if stored is None:
        return abridged(outcome.get("result"), limit)
    return {"_truncated": True, "_size": stored.bytes}


def _around(stored: Stored, value: Any) -> dict[str, Any]:
    return {stored.under: value, **stored.beside}


def _value(stored: Stored) -> Json:
    here = _HERE.get()
    if here is None:
        raise NotLoaded(stored)
    return here.value(stored)


def _builtins(stored: Stored) -> dict[str, Json]:
    return cast("dict[str, Json]", msgspec.to_builtins(stored))
