"""Chooses the view of a tool's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard, cast

from noetl_compiler.graph import Json
from noetl_compiler.language.tools import SQL_KINDS
from noetl_temporal.machine.deferred import DeferredNames
from noetl_temporal.machine.views.http import CallView, HttpView, body_view
from noetl_temporal.machine.views.plain import ListView, ResultView
from noetl_temporal.machine.views.rows import RowsView

__all__ = ["call_view", "response_view", "result_view"]


def result_view(kind: str, result: Json, extra: Mapping[str, Any] | None = None) -> Any:
    """Return the view of a tool's result; a result that is neither mapping nor list is returned unchanged."""
    if isinstance(result, list):
        return ListView(cast("list[Json]", result))
    if isinstance(result, dict) or type(result) is DeferredNames:  # of which the stored part is deferred
        return _map_view(kind, cast("Mapping[str, Json]", result), extra)
    return result


def _map_view(kind: str, result: Mapping[str, Json], extra: Mapping[str, Any] | None) -> ResultView:
    if _is_http(kind, result):
        return HttpView(result, extra)
    if kind in SQL_KINDS and "rows" in result:
        return RowsView(result, extra)
    return ResultView(result, extra)


def _is_http(kind: str, result: Json) -> TypeGuard[Mapping[str, Json]]:
    return kind == "http" and isinstance(result, Mapping) and "status_code" in result


def response_view(kind: str, result: Json) -> Any:
    """Return the variable ``response`` of pagination: the body of an HTTP response, or the result of another tool."""
    if _is_http(kind, result):
        return body_view(result)
    return result_view(kind, result)


def call_view(kind: str, result: Json) -> Any:
    """Return the whole result of a tool: ``response`` in profiles whose outcome is that of the call."""
    if _is_http(kind, result):
        return CallView(result)
    return result_view(kind, result)
