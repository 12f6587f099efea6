"""The names that a template sees, as a chain of mappings whose values are computed when they are read.

From the innermost: the names of an outcome, a task's input, iteration names, reserved names (workload, ctx,
execution_id ...), ctx, results by step and task name, workload (semantics.md 13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from noetl_compiler import templates
from noetl_compiler.graph import Json, Value
from noetl_compiler.language.events import AFTER_CALL
from noetl_compiler.language.names_profile import OutcomeNames
from noetl_compiler.value_merge import mapping_of, select_names, without_names
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.deferred import Deferred, DeferredNames, read_value
from noetl_temporal.machine.stored import result_or_deferred, view_of, with_only_result, with_result
from noetl_temporal.machine.views import (
    ErrorView,
    EventName,
    OutcomeView,
    ResultView,
    call_view,
    response_view,
    result_view,
)

__all__ = [
    "NAMES_OF_EVERY_OUTCOME",
    "Chain",
    "LazyNames",
    "NamesWithFallback",
    "call_names",
    "event_names",
    "outcome_names",
    "running_step_names",
    "sink_config",
]


class Chain(Mapping[str, Any]):
    """A chain of layers: a name has the value of the first layer that defines it."""

    __slots__ = ("_layers",)

    def __init__(self, *layers: Mapping[str, Any]) -> None:
        self._layers = layers

    def with_inner_layers(self, *layers: Mapping[str, Any]) -> Chain:
        """Return this chain with more layers, which shadow its own."""
        return Chain(*layers, *self._layers)

    def __getitem__(self, key: str) -> Any:
        for layer in self._layers:
            if key in layer:
                value = layer[key]
                return value.compute() if type(value) is Deferred else value
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return any(key in layer for layer in self._layers)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for layer in self._layers for name in layer))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def why_undefined(self, path: Sequence[str]) -> str:
        """Return why a path is undefined, "" if no layer knows."""
        for layer in self._layers:
            if (reason := templates.why_undefined(layer, path)) or path[0] in layer:
                return reason
        return ""

    def materialise(self) -> Json:
        """Return all names; inner layers shadow outer ones."""
        return {name: self[name] for name in self}


class LazyNames(Mapping[str, Any]):
    """Names that are all computed when a template first reads one of them; most scopes are never read. ``make``
    computes them, and must not depend on anything that may change before that.
    """

    __slots__ = ("_make", "_names")

    def __init__(self, make: Callable[[], Mapping[str, Any]]) -> None:
        self._make = make
        self._names: Mapping[str, Any] | None = None

    def _computed_names(self) -> Mapping[str, Any]:
        if self._names is None:
            self._names = self._make()
        return self._names

    def __getitem__(self, key: str) -> Any:
        return read_value((self._names or self._computed_names())[key])

    def __contains__(self, key: object) -> bool:
        return key in (self._names or self._computed_names())

    def __iter__(self) -> Iterator[str]:
        return iter(self._computed_names())

    def __len__(self) -> int:
        return len(self._computed_names())

    def why_undefined(self, path: Sequence[str]) -> str:
        """Return why a path is undefined, "" if that is unknown."""
        return templates.why_undefined(self.get(path[0]), path[1:])

    def materialise(self) -> Json:
        """Return all names."""
        return {name: self[name] for name in self}


class NamesWithFallback(Mapping[str, Any]):
    """A mapping whose missing names are looked up in the mapping that ``fallback`` returns. If a template uses the
    mapping as a value, it has only its own names.
    """

    __slots__ = ("_fallback", "_names")

    def __init__(self, names: Mapping[str, Any], fallback: Callable[[], Mapping[str, Any]]) -> None:
        self._names = names
        self._fallback = fallback

    def __getitem__(self, key: str) -> Any:
        return read_value(self._names[key] if key in self._names else self._fallback()[key])

    def __contains__(self, key: object) -> bool:
        return key in self._names or key in self._fallback()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def materialise(self) -> Json:
        """Return the mapping's own names."""
        return {name: self[name] for name in self._names}


def _no_names() -> Mapping[str, Any]:
    return {}


def outcome_names(kind: str, outcome: PlainOutcome, attempt: int = 1, page: int = 1) -> dict[str, Any]:
    """Return the names of a finished call, the same for rules, sinks, ``set``, ``patch`` and arcs.

    ``error`` is bound only if there is one, so that ``error is defined`` works.
    """
    view, result = OutcomeView(kind, outcome), view_of(outcome, partial(result_view, kind))
    names: dict[str, Any] = {
        "output": view,
        "outcome": view,
        "_outcome": view,
        "result": result,
        "data": result,
        "response": view_of(outcome, partial(response_view, kind)),
        "this": _this_value(outcome, result),
        "success": outcome["status"] == "ok",
        "last_error": None,
        "attempt": attempt,
        "_attempt": attempt,
        "page": page,
        "iteration": page,
        "_retry": {"index": page, "count": page},
    }
    status_code = _status_code(outcome)
    if status_code is not None:
        names["status_code"] = status_code
    if outcome["status"] == "error":
        names["error"] = names["last_error"] = ErrorView(outcome.get("error") or {})
        code = templates.Absent("status_code") if status_code is None else status_code
        names["response"] = ResultView({"status": "error", "status_code": code, "error": names["error"]})
    return names


def _this_value(outcome: PlainOutcome, view: Any) -> Any:
    """Return the value of ``this``: a mapping of ``data``, ``result``, and the keys of a result that is a mapping."""
    whole, result = {"data": view, "result": view}, outcome.get("result")
    return DeferredNames({**result, **whole}) if isinstance(result, dict) else DeferredNames(whole)


def call_names(
    profile: OutcomeNames,
    step: str,
    kind: str,
    outcome: PlainOutcome,
    attempt: int = 1,
    page: int = 1,
    outer_scope: Callable[[], Mapping[str, Any]] = _no_names,
) -> dict[str, Any]:
    """Return the names of a finished call that the names profile defines. ``outer_scope`` returns the call's scope."""
    if profile == "call" and outcome.get("page"):
        last: dict[str, Json] = outcome["page"]
        kind, outcome = str(last["kind"]), {**with_result(outcome, None), **with_only_result(last)}
    names = {
        **outcome_names(kind, outcome, attempt, page),
        **_finished_step_names(profile, step, kind, outcome, outer_scope),
    }
    if profile != "call":
        return names
    if outcome["status"] == "ok":
        names["response"] = names["result"] = view_of(outcome, partial(call_view, kind))
    return {**names, **event_names(AFTER_CALL["ok" if outcome["status"] == "ok" else "error"], step, outcome)}


def running_step_names(profile: OutcomeNames, step: str, results: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Return the variable ``step`` before a call, if the profile has it: the name of the running step, and the
    ``results`` of steps by name.
    """
    return (
        {"step": NamesWithFallback({"name": step, "data": None, "result": None}, results)} if profile == "step" else {}
    )


def _finished_step_names(
    profile: OutcomeNames, step: str, kind: str, outcome: PlainOutcome, outer_scope: Callable[[], Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the variable ``step`` after a call, if the profile has it: like that before, with the result."""
    if profile != "step":
        return {}
    result = view_of(outcome, partial(result_view, kind))
    return {
        "step": NamesWithFallback(
            DeferredNames({"name": step, "data": result, "result": result}), lambda: outer_scope().get("step") or {}
        )
    }


def _status_code(outcome: PlainOutcome) -> Json:
    http: Mapping[str, Json] = outcome.get("http") or {}
    return http.get("status")


def event_names(name: str, step: str, outcome: PlainOutcome | None) -> dict[str, Any]:
    """Return the variable ``event``, which conditions of arcs and of admission read."""
    payload = result_or_deferred(outcome) if outcome else None
    return {
        "event": DeferredNames({"name": EventName(name), "type": EventName(name), "step": step, "payload": payload})
    }


def sink_config(config: Value, scope: Mapping[str, Any]) -> dict[str, Json]:
    """Return the rendered configuration of a sink.

    Templates in its statement see ``params`` of the configuration, or else its ``data``, as ``params``, as in v1. They
    see its ``data`` also as ``data``, which shadows the result of the call.
    """
    names = mapping_of(config)
    value_names = [name for name in ("params", "data") if name in names]
    if "statement" not in names or not value_names:
        return templates.render(config, scope) or {}
    values: dict[str, Json] = {}
    visible: dict[str, Any] = {}
    for name in value_names:
        values |= templates.render(select_names(config, [name]), Chain(visible, scope))
        visible.setdefault("params", values[name])
    data: Json = values.get("data")
    if isinstance(data, dict):
        result: Any = scope.get("data")
        fallback = cast("Mapping[str, Any]", result) if isinstance(result, Mapping) else None
        visible["data"] = ResultView(cast("dict[str, Json]", data), fallback)
    others: Json = templates.render(without_names(config, value_names), Chain(visible, scope))
    return {**others, **values}


NAMES_OF_EVERY_OUTCOME = frozenset(outcome_names("", {"status": "ok"}))
"""The names that every outcome binds."""
