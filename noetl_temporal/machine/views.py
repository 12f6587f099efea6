"""How a stored result looks to a template.

A result is stored once, in one shape. Playbooks of different years reach for the same thing by different names, so a
name in a template is a *view*: a read-only mapping that falls through to the older shapes and materialises to plain
JSON when it is passed on whole (dev/decisions/0006).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

from noetl_compiler.graph import Json

__all__ = [
    "ErrorView",
    "EventName",
    "ListView",
    "OutcomeView",
    "ResultView",
    "call_view",
    "response_view",
    "result_view",
]

_SELF_NAMES = frozenset({"data", "result", "output"})
_LIST_NAMES = frozenset({*_SELF_NAMES, "results"})
_COUNT_NAMES = frozenset({"count", "total"})
_ROW_KINDS = frozenset({"postgres", "duckdb", "ducklake", "snowflake"})


class ResultView(Mapping[str, Any]):
    """A map result. ``data``, ``result`` and ``output`` mean the result itself where it has no such key; ``extra``
    has names that lie under its own.
    """

    __slots__ = ("_extra", "_stored")

    def __init__(self, stored: Mapping[str, Json], extra: Mapping[str, Any] | None = None) -> None:
        self._stored = stored
        self._extra = extra or {}

    def __getitem__(self, key: Any) -> Any:
        if key in self._stored:
            return self._stored[key]
        return self._missing(key)

    def _missing(self, key: Any) -> Any:
        if key in self._extra:
            return self._extra[key]
        if key in _SELF_NAMES:
            return self
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def materialise(self) -> Json:
        """The stored result."""
        return dict(self._stored)


class ListView(list[Any]):
    """A list result. ``data``, ``result`` and ``results`` mean the list itself, ``count`` and ``total`` its length."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key in _COUNT_NAMES:
            return len(self)
        if key in _LIST_NAMES:
            return self
        raise KeyError(key)

    def materialise(self) -> Json:
        """The stored result."""
        return list(self)


class _HttpView(ResultView):
    """``{status_code, headers, url, elapsed, data}``: ``body`` is the data, and the body's own keys can be read
    directly.
    """

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if key == "data":
            return _body_view(self._stored)
        return super().__getitem__(key)

    def _missing(self, key: Any) -> Any:
        body = self._stored.get("data")
        if key == "body":
            return body
        if isinstance(body, Mapping) and key in body:
            return cast("Mapping[str, Json]", body)[key]
        return super()._missing(key)

    def materialise(self) -> Json:
        return {**self._stored, "body": self._stored.get("data")}


class CallStatus(int):
    """How an HTTP call went, as case playbooks ask for it: by its code, or by a word."""

    __slots__ = ()
    _WORDS = frozenset({"success", "ok", "completed"})

    def __eq__(self, other: object) -> bool:
        return int(self) == other or other in self._WORDS

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return int.__hash__(self)


class _CallView(_HttpView):
    """An HTTP response that also has ``status`` and ``metadata``, which come before the body's keys."""

    __slots__ = ()

    def _missing(self, key: Any) -> Any:
        if key == "status":
            return CallStatus(self._stored["status_code"])
        if key == "metadata":
            return {name: value for name, value in self._stored.items() if name != "data"}
        return super()._missing(key)


class _BodyView(ResultView):
    """A response's body: its keys first, then the response's. ``data`` is the body itself where it has no such key."""

    __slots__ = ("_response",)

    def __init__(self, body: Mapping[str, Json], response: Mapping[str, Json]) -> None:
        super().__init__(body)
        self._response = response

    def _missing(self, key: Any) -> Any:
        if key == "body":
            return self._stored
        if key != "data" and key in self._response:
            return self._response[key]
        return super()._missing(key)


class _StatementView(ResultView):
    """``{rows, columns, row_count}`` of one statement; an index is a row."""

    __slots__ = ()

    def _missing(self, key: Any) -> Any:
        return self._stored["rows"][key] if isinstance(key, int) else super()._missing(key)


class _RowsView(ResultView):
    """``{rows, columns, row_count, ...}``: ``command_<i>`` is the i-th statement, an index a row."""

    __slots__ = ()

    def _missing(self, key: Any) -> Any:
        if isinstance(key, int):
            return self._stored["rows"][key]
        if isinstance(key, str) and key.startswith("command_"):
            return self._command(key)
        return super()._missing(key)

    def _command(self, key: str) -> Any:
        """One statement, of which an index is a row as well."""
        statements: list[Json] = self._stored.get("statements") or [self._first()]
        index = key.removeprefix("command_")
        if index.isdecimal() and int(index) < len(statements):
            return _StatementView(statements[int(index)])
        raise KeyError(key)

    def _first(self) -> Json:
        return {name: self._stored.get(name) for name in ("rows", "columns", "row_count")}

    def materialise(self) -> Json:
        return {**self._stored, "command_0": self._command("command_0").materialise()}


def result_view(kind: str, result: Json, extra: Mapping[str, Any] | None = None) -> Any:
    """A tool's result as templates see it; what is neither map nor list is seen as it is."""
    if isinstance(result, list):
        return ListView(cast("list[Json]", result))
    if not isinstance(result, dict):
        return result
    return _map_view(kind, cast("dict[str, Json]", result), extra)


def _map_view(kind: str, result: dict[str, Json], extra: Mapping[str, Any] | None) -> ResultView:
    if kind == "http" and "status_code" in result:
        return _HttpView(result, extra)
    if kind in _ROW_KINDS and "rows" in result:
        return _RowsView(result, extra)
    return ResultView(result, extra)


def response_view(kind: str, result: Json) -> Any:
    """What pagination calls ``response``: the body of an HTTP response, any other tool's result."""
    if kind == "http" and isinstance(result, dict) and "status_code" in result:
        return _body_view(cast("dict[str, Json]", result))
    return result_view(kind, result)


def call_view(kind: str, result: Json) -> Any:
    """What the case dialect calls ``response``: the tool's whole result."""
    if kind == "http" and isinstance(result, dict) and "status_code" in result:
        return _CallView(cast("dict[str, Json]", result))
    return result_view(kind, result)


def _body_view(response: Mapping[str, Json]) -> Any:
    body = response.get("data")
    return _BodyView(cast("Mapping[str, Json]", body), response) if isinstance(body, Mapping) else body


class ErrorView(Mapping[str, Any]):
    """An error, or the absence of one: then every field is none, so that ``output.error.retryable`` can be asked."""

    __slots__ = ("_error",)
    _ALIASES: ClassVar[dict[str, str]] = {"status_code": "status", "type": "kind", "error": "message"}
    _FIELDS = ("kind", "code", "message", "retryable", "status")

    def __init__(self, error: Mapping[str, Json] | None) -> None:
        self._error = error

    def __getitem__(self, key: str) -> Any:
        if self._error is None:
            return None
        name = self._ALIASES.get(key, key)
        if name in self._error or name in self._FIELDS:
            return self._error.get(name, False if name == "retryable" else None)
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._FIELDS if self._error is not None else ())

    def __len__(self) -> int:
        return len(self._FIELDS) if self._error is not None else 0

    def materialise(self) -> Json:
        """The error's fields, or none."""
        return {name: self[name] for name in self} if self._error is not None else None


class OutcomeView(Mapping[str, Any]):
    """The envelope: status, data (= result), error, http, pg, py, meta. Passed whole it is the task's result."""

    __slots__ = ("_outcome", "_result")
    _FACTS = ("http", "pg", "py")
    _NAMES = ("status", "data", "result", "error", "http", "pg", "py", "meta")

    def __init__(self, kind: str, outcome: Mapping[str, Json]) -> None:
        self._outcome = outcome
        self._result: Any = result_view(kind, outcome.get("result"), outcome.get("selected"))

    def __getitem__(self, key: str) -> Any:
        if key in ("data", "result"):
            return self._result
        if key == "error":
            return ErrorView(self._outcome.get("error"))
        if key in self._FACTS:
            return ErrorView(None) if self._outcome.get(key) is None else self._outcome[key]
        if key in ("status", "meta"):
            return self._outcome.get(key)
        result: Any = self._result
        if isinstance(result, Mapping):
            return cast("Mapping[str, Any]", result)[key]
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._NAMES)

    def __len__(self) -> int:
        return len(self._NAMES)

    def materialise(self) -> Json:
        """The result, as `_prev` once was."""
        return self._result


class EventName(str):
    """A boundary event's name; it equals every name that was ever used for the boundary (semantics.md 8)."""

    __slots__ = ()
    _SYNONYMS: ClassVar[dict[str, frozenset[str]]] = {
        "step.done": frozenset({"call.done", "step.exit", "loop.item"}),
        "step.failed": frozenset({"call.error", "step.exit"}),
        "step.skipped": frozenset({"step.enter"}),
        "loop.done": frozenset({"step.done", "step.exit"}),
        "loop.failed": frozenset({"step.failed", "call.error", "step.exit"}),
    }

    def __eq__(self, other: object) -> bool:
        name = str.__str__(self)
        return name == other or other in self._SYNONYMS.get(name, ())

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)
