"""Large values outside the machine's state, which has references to them (dev/decisions/0027).

A large result of a call, and the items and results of a large loop, are stored once in the payload store. The state
has a ``StoredRef`` instead: a small reference with the keys of the parts. A snapshot copies only this reference.

Reading such a value raises NotLoaded, a BaseException, so that neither templates nor the handling of failures catch it.
The intake rolls the fact back, and applies it again once the value is loaded (intake.py, loads.py).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple, cast

import msgspec

from noetl_compiler.graph import Json
from noetl_compiler.graph.contents import pointer, with_values_at
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine.call import PlainOutcome, StoredRef
from noetl_temporal.machine.deferred import Deferred, DeferredNames
from noetl_temporal.machine.journal import COMBINED_BYTES, REPEATED_BYTES, VALUE_BYTES
from noetl_temporal.shortening import excess_size

__all__ = [
    "LoadedValue",
    "LoadedValues",
    "NotLoaded",
    "ReadingFrom",
    "assemble_result",
    "check_size",
    "combined_results",
    "load_id",
    "loaded_result",
    "logged_result",
    "reference_in",
    "result_or_deferred",
    "stored_list",
    "stored_value",
    "view_of",
    "with_deferred",
    "with_only_result",
    "with_result",
    "with_row",
    "with_stored",
    "without_row",
]

_PLACEHOLDER = ["stands for a list that is not loaded"]

_RESULT_KEYS = ("result", "stored", "row")
"""The keys of an outcome for its result: itself, the reference to a stored one, the row of the log that has it."""

_REFERENCE_KEYS = ("stored", "row")

_PREVIEW_BYTES = 200


class NotLoaded(BaseException):
    """A stored value that is not loaded was read. It is a BaseException, so code that handles failures does not catch
    it.
    """

    def __init__(self, reference: StoredRef) -> None:
        super().__init__(load_id(reference))
        self.stored = reference


class LoadedValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A loaded value; ``error`` says why it could not be loaded."""

    value: Json = None
    error: str = ""


class LoadedValues(NamedTuple):
    """The values that a machine has ``loaded``, by the id of the load; ``limit`` is the maximum size of one in bytes.

    ``missing`` says why other values cannot be loaded; "" if they can.
    """

    loaded: Mapping[str, LoadedValue]
    limit: int
    missing: str = ""

    def value(self, reference: StoredRef) -> Json:
        """Return the loaded value. Raises NotLoaded if it is not loaded, TemplateFailure if it cannot be."""
        check_size(reference, self.limit)
        loaded = self.loaded.get(load_id(reference))
        if loaded is None and self.missing:
            raise TemplateFailure(self.missing)
        if loaded is None:
            raise NotLoaded(reference)
        if loaded.error:
            raise TemplateFailure(loaded.error)
        return loaded.value


def check_size(reference: StoredRef, limit: int) -> None:
    """Raise TemplateFailure if the value has more than ``limit`` bytes."""
    if reference.bytes > limit:
        raise TemplateFailure(
            f"a stored value of {reference.bytes:,} bytes is too large to read (limit {limit:,} bytes): "
            "read it back from a sink, or pass on less of it"
        )


_LOADED: ContextVar[LoadedValues | None] = ContextVar("loaded values", default=None)


class ReadingFrom:
    """Read stored values from ``values`` inside the block. Templates read through layers of views that do not know
    their machine.
    """

    __slots__ = ("_token", "_values")

    def __init__(self, values: LoadedValues) -> None:
        self._values = values

    def __enter__(self) -> None:
        self._token = _LOADED.set(self._values)

    def __exit__(self, *_: object) -> None:
        _LOADED.reset(self._token)


def load_id(reference: StoredRef) -> str:
    """Return the id of the activity that loads the value; equal for equal values."""
    identity = msgspec.json.encode((reference.parts, reference.is_one))
    return f"load:{hashlib.sha256(identity).hexdigest()[:32]}"


def reference_in(outcome: Mapping[str, Any]) -> StoredRef | None:
    """Return the reference to a stored result; None if the outcome contains the result."""
    reference = outcome.get("stored")
    return None if reference is None else msgspec.convert(reference, StoredRef)


def with_result(outcome: PlainOutcome, result: Json) -> PlainOutcome:
    """Return the outcome with another result."""
    return {**{name: value for name, value in outcome.items() if name not in _RESULT_KEYS}, "result": result}


def with_stored(outcome: PlainOutcome, reference: StoredRef | None) -> PlainOutcome:
    """Return the outcome with this reference instead of its result. References in the outcome of a tool are removed."""
    if reference is None:
        has_result = outcome.keys().isdisjoint(_REFERENCE_KEYS)
        return (
            outcome if has_result else {name: value for name, value in outcome.items() if name not in _REFERENCE_KEYS}
        )
    others = {name: value for name, value in outcome.items() if name not in _RESULT_KEYS}
    return {**others, "stored": _builtins(reference)}


def with_only_result(outcome: Mapping[str, Any]) -> PlainOutcome:
    """Return the outcome without the keys that are not for its result."""
    return {name: outcome[name] for name in _RESULT_KEYS if name in outcome}


def view_of(outcome: Mapping[str, Any], view: Callable[[Json], Any]) -> Any:
    """Return ``view(result)``; for a stored result a Deferred, which is loaded when a template reads it."""
    reference = reference_in(outcome)
    if reference is None:
        return view(outcome.get("result"))
    if reference.pointer:
        return view(with_deferred(reference.container, {reference.pointer: reference}))
    return Deferred(lambda: view(stored_value(reference)))


def result_or_deferred(outcome: Mapping[str, Any]) -> Any:
    """Return the result; as a Deferred if it is stored."""
    return view_of(outcome, lambda result: result)


def loaded_result(outcome: Mapping[str, Any]) -> Json:
    """Return the whole result as plain JSON, also if it is stored. Raises NotLoaded, TemplateFailure."""
    reference = reference_in(outcome)
    if reference is None:
        return outcome.get("result")
    return assemble_result(reference, stored_value(reference))


def with_row(outcome: PlainOutcome, row: int) -> PlainOutcome:
    """Return the outcome with ``row``, the id of the row of the log that has its result. For a result of an attempt it
    is the row of the start of its task, below which the mirror writes the attempt.

    Small results get no row, since later events repeat them. An outcome that has a row is returned as it is.
    """
    is_small = "row" in outcome or _excess_size(outcome, REPEATED_BYTES) is None
    return outcome if is_small else {**outcome, "row": row}


def without_row(outcome: PlainOutcome) -> PlainOutcome:
    """Return the outcome without its row, for a rerun: the row is in the log of the earlier run."""
    return {name: value for name, value in outcome.items() if name != "row"}


def logged_result(outcome: Mapping[str, Any], meta: dict[str, Any]) -> Json:
    """Return the result for an event with this ``meta``. A large one is left out: then ``meta`` gets its size, and the
    row that has it or, without one, its beginning.

    The log shows results of up to COMBINED_BYTES; the mirror takes those that are left out from their row.
    """
    size = _excess_size(outcome, COMBINED_BYTES if "row" not in outcome else REPEATED_BYTES)
    if size is None:
        return outcome.get("result")
    left_out: dict[str, Json] = {"size": size}
    meta["left_out"] = left_out
    if "row" in outcome:
        left_out["row"] = outcome["row"]
    elif "stored" not in outcome:
        text = msgspec.json.encode(outcome["result"])[:_PREVIEW_BYTES]
        left_out["preview"] = text.decode(errors="ignore")
    return None


def _excess_size(outcome: Mapping[str, Any], limit: int) -> int | None:
    """Return the size of the result as JSON; None if it has at most ``limit`` bytes."""
    if "stored" in outcome:
        return msgspec.convert(outcome["stored"], StoredRef).bytes
    return excess_size(outcome.get("result"), limit)


def combined_results(outcomes: Mapping[str, Mapping[str, Any]]) -> tuple[Json, dict[str, Json]]:
    """Return the results of these steps for one row of the log, and a description of each result that is left out
    because history has it: its size, the row that has it, and whether it is a mapping.

    If the results are too large together, the large ones are replaced by references to the rows that have them. If they
    are still too large, only the size and the beginning of all of them are returned.
    """
    results: dict[str, Json] = {}
    large = {
        name: size for name, outcome in outcomes.items() if (size := _excess_size(outcome, VALUE_BYTES)) is not None
    }
    for limit in (COMBINED_BYTES, VALUE_BYTES):
        results = {name: outcome.get("result") for name, outcome in outcomes.items()}
        for name, size in large.items():
            if size > limit or "stored" in outcomes[name]:
                results[name] = _log_reference(outcomes[name], size)
        if _json_size(results) <= COMBINED_BYTES:
            left_out = {
                name: {
                    "size": _excess_size(outcome, REPEATED_BYTES),
                    "row": outcome["row"],
                    "is_mapping": isinstance(outcome["result"], dict),
                }
                for name, outcome in outcomes.items()
                if "row" in outcome and _excess_size(outcome, limit) is None
            }
            return {**results, **dict.fromkeys(left_out)}, left_out
        if not large:
            break
    text = msgspec.json.encode(results)[:_PREVIEW_BYTES].decode(errors="ignore")
    return {"reference": {"type": "rows", "size": _json_size(results), "preview": text}}, {}


def _log_reference(outcome: Mapping[str, Any], size: int) -> Json:
    """Return a reference to the row of the log that has a result of this size, which is left out."""
    if "row" in outcome:
        return {"reference": {"type": "row", "event_id": str(outcome["row"]), "size": size}}
    return {"reference": {"type": "rows", "size": size}}


def _json_size(value: Json) -> int:
    return len(msgspec.json.encode(value))


def assemble_result(reference: StoredRef, value: Any) -> Any:
    """Return the result whose stored part is ``value``."""
    return with_values_at(reference.container, {reference.pointer: value}) if reference.pointer else value


def with_deferred(values: Mapping[str, Any], references: Mapping[str, StoredRef], parent: str = "") -> DeferredNames:
    """Return the mapping at the JSON pointer ``parent``, in which the values that have a reference are deferred."""
    members: dict[str, Any] = {}
    for name, value in values.items():
        member = pointer(parent, name)
        if member in references:
            value = Deferred(partial(stored_value, references[member]))
        elif isinstance(value, dict) and any(other.startswith(f"{member}/") for other in references):
            value = with_deferred(cast("dict[str, Any]", value), references, member)
        members[name] = value
    return DeferredNames(members)


def stored_list(read: Callable[[], Json]) -> StoredRef | None:
    """Return the reference to the list if ``read`` returns an unchanged stored list, which is not loaded; else None.

    Raises TemplateFailure.
    """
    with ReadingFrom(LoadedValues({}, sys.maxsize)):
        try:
            read()
        except NotLoaded as error:
            reference = error.stored
        else:
            return None
    if reference.is_one:
        return None
    with ReadingFrom(LoadedValues({load_id(reference): LoadedValue(_PLACEHOLDER)}, sys.maxsize)):
        try:
            return reference if read() == _PLACEHOLDER else None
        except (NotLoaded, TemplateFailure):
            return None


def stored_value(reference: StoredRef) -> Json:
    """Return the stored value. Raises NotLoaded, TemplateFailure."""
    loaded = _LOADED.get()
    if loaded is None:
        raise NotLoaded(reference)
    return loaded.value(reference)


def _builtins(reference: StoredRef) -> dict[str, Json]:
    return cast("dict[str, Json]", msgspec.to_builtins(reference))
