"""The names that a playbook defines: results by step, ctx and workload, as layers of a scope."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from noetl_compiler import templates
from noetl_compiler.graph import Json, NamesProfile
from noetl_compiler.language.names import VARS_CACHE
from noetl_temporal.machine import json_trees, large_values
from noetl_temporal.machine.deferred import DeferredNames, read_value
from noetl_temporal.machine.keychain import Keychain
from noetl_temporal.machine.records import StepRecord, TaskRecord
from noetl_temporal.machine.scope import Chain, LazyNames, running_step_names
from noetl_temporal.machine.state import PlaybookState, StepRun
from noetl_temporal.machine.stored import result_or_deferred, view_of
from noetl_temporal.machine.tally import StepStatus
from noetl_temporal.machine.views import ErrorView, ResultView, result_view

__all__ = ["LOOP_KIND", "assign", "playbook_scope", "record_view", "results_of", "task_view"]

LOOP_KIND = "loop"
"""The kind with which the results of loops are recorded, instead of the kind of a tool."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class _Results(Mapping[str, Any]):
    """Views of step results by name, created when a template reads them. ``steps`` are the names of all steps, ``runs``
    the runs in progress: they explain why a step has no result.
    """

    __slots__ = ("_records", "_runs", "_steps")

    def __init__(
        self, records: Mapping[str, StepRecord], steps: Container[str] = (), runs: Mapping[str, StepRun] = _NOTHING
    ) -> None:
        self._records = records
        self._steps = steps
        self._runs = runs

    def __getitem__(self, key: str) -> Any:
        return read_value(record_view(self._records[key]))

    def __contains__(self, key: object) -> bool:
        return key in self._records

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def why_undefined(self, path: Sequence[str]) -> str:
        """Return why a path that begins with the name of a step is undefined; "" if the step has its result."""
        step = path[0]
        record = self._records.get(step)
        if record is not None:
            return _why_incomplete(step, record.status)
        if step not in self._steps:
            return ""
        if any(run.step == step for run in self._runs.values()):
            return f'step "{step}" is still running, so it has no result yet'
        reason = f'step "{step}" has not run yet, or its route was not taken'
        return f'{reason}. Route through it first, or allow for its absence with "{step} is defined" or default(...)'


def _why_incomplete(step: str, status: StepStatus) -> str:
    match status:
        case "skipped":
            reason = f'step "{step}" was skipped, so it has no result'
            return f"{reason}. Allow for this with default(...)"
        case "cancelled":
            return f'step "{step}" was cancelled, so it has no result'
        case "failed":
            return f'step "{step}" failed, so it has no result. Its error is {step}.error'
        case _:
            return ""


class _TaskResults(Mapping[str, Any]):
    """Results by task name; if several steps have a task of the name, that of the last one."""

    __slots__ = ("_records",)

    def __init__(self, records: Mapping[str, StepRecord]) -> None:
        self._records = records

    def __getitem__(self, key: str) -> Any:
        for record in reversed(list(self._records.values())):
            if key in record.tasks:
                return read_value(task_view(record.tasks[key]))
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(label for record in self._records.values() for label in record.tasks))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def task_view(task: TaskRecord) -> Any:
    """Return the value of a task's name: its result, with the selected parts."""
    return view_of(task.outcome, lambda result: result_view(task.kind, result, task.outcome.get("selected")))


def record_view(record: StepRecord) -> Any:
    """Return the value of a step's name: its result with ``results.<label>``, or its error with the results of loop
    items.
    """
    if record.status == "failed":
        failed: dict[str, Any] = {"status": "failed", "error": ErrorView(record.outcome.get("error") or {})}
        result_names = _partial_results(record) if record.kind == LOOP_KIND else _failed_response(record)
        return ResultView(DeferredNames({**result_names, **failed}))
    tasks = DeferredNames({label: task_view(task) for label, task in record.tasks.items()})
    extra: dict[str, Any] = record.outcome.get("selected") or {}
    names = {**extra, "results": tasks} if tasks else extra
    return view_of(record.outcome, lambda result: result_view(record.kind, result, names))


def _failed_response(record: StepRecord) -> dict[str, Any]:
    """Return the response of a failed call, such as the body of an HTTP error."""
    if record.outcome.get("result") is None and "stored" not in record.outcome:
        return {}
    view = view_of(record.outcome, lambda result: result_view(record.kind, result))
    http: Json = record.outcome.get("http")
    return {"data": view} if http is None else {"data": view, "http": http}


def _partial_results(record: StepRecord) -> dict[str, Any]:
    """Return the partial results of a failed loop, for a step that repairs it."""
    result: Any = result_or_deferred(record.outcome)
    if result is None:
        return {}
    if isinstance(result, DeferredNames):
        return {"data": result, **result.uncomputed}
    if isinstance(result, dict):
        return {**result, "data": result}
    return {"results": result, "data": result, "stats": record.outcome["meta"]["stats"]}


def results_of(state: PlaybookState, names: NamesProfile, steps: Container[str]) -> Mapping[str, Any]:
    """Return the results by step name, and by task name if the profile says so. A step that also runs on the routes of
    items has the result of its own run.
    """
    layers = [state.records, state.route_records] if state.route_records else [state.records]
    tasks = [_TaskResults(layer) for layer in layers] if names.task_results else []
    last = _Results(layers[-1], steps, state.runs)
    if len(layers) + len(tasks) == 1:
        return last
    return Chain(*map(_Results, layers[:-1]), last, *tasks)


def playbook_scope(
    state: PlaybookState,
    names: NamesProfile,
    steps: Container[str],
    keychain: Keychain,
    execution_id: int,
    at: int,
    run: StepRun | None,
    layers: Sequence[Mapping[str, Any]],
    outermost: Mapping[str, Any] = _NOTHING,
) -> Chain:
    """Return all names that are visible in ``run``, or in no run, at this time. ``layers`` are the innermost ones,
    ``outermost`` is looked up last. The scope does not change afterwards.
    """
    results = results_of(state, names, steps)
    values = _values(state)
    secrets = _NOTHING if keychain.is_empty else keychain.names(values.workload, values.payload)
    reserved = LazyNames(partial(_reserved_names, values, results, secrets, names, str(execution_id), at))
    if run is None:
        return Chain(*layers, reserved, values.ctx, results, values.workload, secrets)
    iter_names = {"iter": run.iter_values, **running_step_names(names.outcome, run.step, lambda: results)}
    return Chain(
        *layers,
        run.args,
        iter_names,
        reserved,
        run.iter_values,
        values.ctx,
        results,
        values.workload,
        secrets,
        outermost,
    )


class _Values(NamedTuple):
    """The values that templates read from the state, at one time. A write replaces a value and never changes it."""

    ctx: Mapping[str, Any]
    vars: Mapping[str, Any]
    workload: Mapping[str, Any]
    payload: Mapping[str, Any]


def _values(state: PlaybookState) -> _Values:
    """Return the values of the state. Few states have stored values, so the common case is fast."""
    if not state.stored_values:
        return _Values(state.ctx, state.vars, state.workload, state.payload)
    return _Values(*(large_values.values_under(state, root) for root in _Values._fields))


def _reserved_names(
    values: _Values,
    results: Mapping[str, Any],
    secrets: Mapping[str, Any],
    profile: NamesProfile,
    execution_id: str,
    at: int,
) -> dict[str, Any]:
    names: dict[str, Any] = {
        "workload": values.workload,
        "work": values.workload,
        "ctx": Chain(values.ctx, results, values.workload),
        "vars": Chain(values.vars, values.ctx, values.workload),
        "payload": values.payload,
        "results": results,
        "execution_id": execution_id,
        "job": {"id": execution_id, "uuid": execution_id, "execution_id": execution_id},
        "now": templates.Clock(at),
        VARS_CACHE: LazyNames(partial(_set_names, values)),
    }
    if secrets:
        names["keychain"] = secrets
    if not profile.task_results:
        return names
    return {"loop": results, **names, "steps": results} if "loop" not in names["ctx"] else {**names, "steps": results}


def _set_names(values: _Values) -> dict[str, Any]:
    """Return the names that the playbook has set, without those that the compiler has added, which begin with ``_``."""
    chain = Chain(values.vars, values.ctx)
    return {name: chain[name] for name in chain if not name.startswith("_")}


def assign(state: PlaybookState, run: StepRun | None, target: str, value: Json) -> None:
    """Write one ``set`` target: ``ctx.a.b``, ``vars.x``, ``iter.x`` or ``ctx.list[]`` (semantics.md 12)."""
    root, path, operator = json_trees.split_target(target)
    if root == "iter" and run is not None:
        new = json_trees.value_to_write([run.iter_values], path, operator, value)
        run.iter_values = json_trees.with_value(run.iter_values, path, new)
        return
    roots = ["vars"] if root == "vars" else ["ctx", "workload"]
    trees = [large_values.values_under(state, name) for name in roots]
    new = json_trees.value_to_write(trees, path, operator, value)
    large_values.write(state, roots[0], path, new)
