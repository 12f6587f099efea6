"""The envelope of an outcome, and its error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

from noetl_compiler.graph import Json
from noetl_compiler.language.names import BELOW_OUTCOME
from noetl_compiler.templates import Absent
from noetl_temporal.machine.deferred import read_value
from noetl_temporal.machine.stored import view_of
from noetl_temporal.machine.views.tools import result_view

__all__ = ["ErrorView", "OutcomeView"]


class ErrorView(Mapping[str, Any]):
    """An error, or none: then every field is undefined, so templates can always read ``output.error.retryable``."""

    __slots__ = ("_error",)
    _ALIASES: ClassVar[dict[str, str]] = {"status_code": "status", "type": "kind", "error": "message"}
    _FIELDS = ("kind", "code", "message", "retryable", "status")

    def __init__(self, error: Mapping[str, Json] | None) -> None:
        self._error = error

    def __getitem__(self, key: str) -> Any:
        if self._error is None:
            return Absent(key)
        name = self._ALIASES.get(key, key)
        if name not in self._error and name not in self._FIELDS:
            raise KeyError(key)
        value = self._error.get(name, False if name == "retryable" else None)
        return Absent(key) if value is None else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._FIELDS if self._error is not None else ())

    def __len__(self) -> int:
        return len(self._FIELDS) if self._error is not None else 0

    def materialise(self) -> Json:
        """Return the error's fields, or none."""
        if self._error is None:
            return None
        return {name: self._error.get(name, False if name == "retryable" else None) for name in self._FIELDS}


class OutcomeView(Mapping[str, Any]):
    """The envelope: status, data (also result and response), error, http, pg, py, meta. As a whole value it is the
    result of the task; after an error, or without a result, the envelope.
    """

    __slots__ = ("_outcome", "_result")
    _FACTS = frozenset(BELOW_OUTCOME) - {"error"}
    _NAMES = ("status", "data", "result", *BELOW_OUTCOME, "meta")

    def __init__(self, kind: str, outcome: Mapping[str, Json]) -> None:
        self._outcome = outcome
        self._result: Any = view_of(outcome, lambda result: result_view(kind, result, outcome.get("selected")))

    def __getitem__(self, key: str) -> Any:
        if key in ("data", "result"):
            return read_value(self._result)
        if key == "error":
            return ErrorView(self._outcome.get("error"))
        if key in self._FACTS:
            return ErrorView(None) if self._outcome.get(key) is None else self._outcome[key]
        if key in ("status", "meta"):
            return self._outcome.get(key)
        result: Any = read_value(self._result)
        if isinstance(result, Mapping) and (key != "response" or key in result):
            return cast("Mapping[str, Any]", result)[key]
        if key == "response":
            return cast("Any", result)
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._NAMES)

    def __len__(self) -> int:
        return len(self._NAMES)

    def materialise(self) -> Json:
        """Return the result, as the value of ``_prev``; never null."""
        result: Any = read_value(self._result)
        if result is not None and self._outcome["status"] == "ok":
            return result
        facts = {name: self._outcome[name] for name in self._FACTS if self._outcome.get(name) is not None}
        error = ErrorView(self._outcome.get("error")).materialise()
        return {"status": self._outcome["status"], "data": result, "error": error, **facts}
