"""The playbook's own names: results by step, ctx and workload, as layers of a scope."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from noetl_compiler.graph import Json
from noetl_temporal.machine import trees
from noetl_temporal.machine.scope import Chain
from noetl_temporal.machine.state import PlaybookState, StepRecord, StepRun
from noetl_temporal.machine.views import ErrorView, ResultView, result_view

__all__ = ["LOOP", "assign", "playbook_scope", "record_view"]

LOOP = "loop"
"""The kind under which a loop's results are recorded."""


class _Results(Mapping[str, Any]):
    """Step results by name, made into views only when a template asks."""

    __slots__ = ("_records",)

    def __init__(self, records: Mapping[str, StepRecord]) -> None:
        self._records = records

    def __getitem__(self, key: str) -> Any:
        return record_view(self._records[key])

    def __contains__(self, key: object) -> bool:
        return key in self._records

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


def record_view(record: StepRecord) -> Any:
    """What a step's name gives: its result with ``results.<label>``, or how it failed."""
    if record.status == "failed":
        return ResultView({"status": "failed", "error": ErrorView(record.outcome.get("error") or {})})
    tasks = {label: result_view(task.kind, task.outcome.get("result")) for label, task in record.tasks.items()}
    return result_view(record.kind, record.outcome.get("result"), {"results": tasks} if tasks else None)


def playbook_scope(
    state: PlaybookState, execution_id: int, run: StepRun | None, layers: Sequence[Mapping[str, Any]]
) -> Chain:
    """Everything in effect, the given layers innermost."""
    results = _Results(state.records)
    ident = str(execution_id)
    reserved: dict[str, Any] = {
        "workload": state.workload,
        "work": state.workload,
        "ctx": Chain(state.ctx, results, state.workload),
        "vars": state.vars,
        "payload": state.payload,
        "results": results,
        "execution_id": ident,
        "job": {"id": ident, "uuid": ident, "execution_id": ident},
    }
    if run is not None:
        reserved["iter"] = run.bound
        return Chain(*layers, run.args, reserved, state.ctx, results, state.workload)
    return Chain(*layers, reserved, state.ctx, results, state.workload)


def assign(state: PlaybookState, run: StepRun | None, target: str, value: Json) -> None:
    """Write one ``set`` target: ``ctx.a.b``, ``vars.x`` or ``iter.x`` (semantics.md 12)."""
    root, _, path = target.partition(".")
    if root == "iter" and run is not None:
        run.bound = trees.written(run.bound, path, value)
    elif root == "vars":
        state.vars = trees.written(state.vars, path, value)
    else:
        state.ctx = trees.written(state.ctx, path, value)
