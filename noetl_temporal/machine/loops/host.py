"""The host of a pipeline that runs for one iteration of a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from noetl_compiler import templates
from noetl_compiler.graph import Json, Span, Step
from noetl_compiler.language.names import VARS_CACHE
from noetl_temporal.machine import json_trees
from noetl_temporal.machine.call import LeaseRenewal
from noetl_temporal.machine.commands import ChunkInput
from noetl_temporal.machine.condition_warning import ConditionWarning
from noetl_temporal.machine.journal import VALUE_BYTES, Journal
from noetl_temporal.machine.loops.claims import lease_names
from noetl_temporal.machine.scope import Chain, LazyNames, NamesWithFallback
from noetl_temporal.machine.state import Iteration, LoopState
from noetl_temporal.machine.tasks.plan import StepPlan
from noetl_temporal.shortening import abridge

__all__ = ["IterationHost", "iteration_ids"]


def iteration_ids(input_: ChunkInput, index: int) -> dict[str, Any]:
    """Return the metadata of an event that identifies the iteration."""
    return {
        "step": input_.step.name,
        "loop_id": input_.loop_id,
        "iteration": index,
        "iteration_id": f"{input_.loop_id}/{index}",
    }


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class IterationHost:
    """See tasks.host.Host. ``plan`` is that of the loop's step, ``lease_of`` returns the lease that the calls of an
    iteration renew.
    """

    def __init__(
        self,
        input_: ChunkInput,
        plan: StepPlan,
        loop: LoopState,
        iteration: Iteration,
        journal: Journal,
        lease_of: Callable[[Iteration], LeaseRenewal | None],
    ) -> None:
        self.journal = journal
        self.plan = plan
        self.step: Step = input_.step
        self.names = input_.names
        self.secrets_key = input_.secrets_key
        self.prefix = self.run_id = iteration.id
        self.key = f"{input_.execution_id}/{input_.loop_id}/{iteration.index}"
        self.step_run_key = f"{input_.execution_id}/{input_.step_run_id}"
        self.parent_id = iteration.event_id
        self.iteration: int | None = iteration.index
        self.meta: Mapping[str, Any] = iteration_ids(input_, iteration.index)
        self._input = input_
        self._loop = loop
        self._iteration = iteration
        self._lease_of = lease_of
        self.circuits = loop.circuits
        self._names = self._lazy_names()

    def _lazy_names(self) -> LazyNames:
        run = self._iteration
        return LazyNames(partial(_iteration_names, self._input, run.index, run.iter_values, run.claim_number, run.row))

    def lease(self) -> LeaseRenewal | None:
        """Return the lease of the iteration's row."""
        return self._lease_of(self._iteration)

    def scope(self, *layers: Mapping[str, Any], results: Mapping[str, Any] = _NOTHING) -> Chain:
        """Return the names of the iteration. They shadow the ``results`` of its region, and these the outer names."""
        outer, loop_ctx, run = self._input.scope, self._loop.ctx, self._iteration
        set_names = LazyNames(partial(_set_names, run.ctx, loop_ctx, outer, self.journal.feed.at))
        return Chain(*layers, self._names, set_names, run.iter_values, run.ctx, loop_ctx, results, outer)

    @property
    def iter_names(self) -> Mapping[str, Any]:
        """The value of ``iter`` in this iteration."""
        names: Mapping[str, Any] = self._names["iter"]
        return names

    def _ctx_layers(self) -> list[Mapping[str, Any]]:
        """Return the mappings that may have a name of ``ctx``, the innermost first. Of the outer names, a chunk has
        only those that the templates of the body read.
        """
        outer = self._input.scope
        return [self._iteration.ctx, self._loop.ctx, outer.get("ctx") or {}, outer.get("vars") or {}, outer]

    def warn(self, message: str, span: Span) -> None:
        """Add a warning to the report of the chunk, once per span; the playbook leaves out those of earlier chunks."""
        if not any(warning.span == span for warning in self._loop.warnings):
            self._loop.warnings.append(ConditionWarning(message, span))

    def assign(self, values: Sequence[tuple[str, Json]]) -> None:
        """Apply ``set`` entries; those other than ``iter`` are reported to the playbook too."""
        if not values:
            return
        self.write(values)
        self.journal.emit(
            "ctx.updated",
            self.step.name,
            "iteration",
            "COMPLETED",
            parent=self.parent_id,
            context={"set": {target: abridge(value, VALUE_BYTES) for target, value in values}},
            targets=[target for target, _ in values],
            **self.meta,
        )

    def write(self, values: Sequence[tuple[str, Json]]) -> None:
        """Apply ``set`` entries. Raises TemplateFailure."""
        run = self._iteration
        for target, value in values:
            root, path, operator = json_trees.split_target(target)
            if root == "iter":
                run.iter_values = json_trees.with_value(
                    run.iter_values, path, json_trees.value_to_write([run.iter_values], path, operator, value)
                )
                self._names = self._lazy_names()
            else:
                run.ctx = json_trees.with_value(
                    run.ctx, path, json_trees.value_to_write(self._ctx_layers(), path, operator, value)
                )
                run.assigns.append((target, value))


def _iteration_names(
    chunk: ChunkInput, index: int, set_names: Mapping[str, Json], claim: int, row: Json
) -> dict[str, Any]:
    """Return the names of an iteration; ``set_names`` has those set with ``set iter.x``. The number of rows of a cursor
    is unknown.
    """
    element = chunk.step.loop.element if chunk.step.loop else "item"
    item = chunk.items[index - chunk.first] if chunk.claims is None else row
    position = _position_names(chunk, index)
    iter_names = {f"_{name}": value for name, value in position.items()}
    iter_names |= position
    iter_names[element] = item
    iter_names |= set_names
    names: dict[str, Any] = {
        element: item,
        "iter": Chain(iter_names, chunk.scope.get("iter") or {}),
        "loop": NamesWithFallback(position, lambda: chunk.scope.get("loop") or {}),
        "_loop": position,
        "_index": index,
        "loop_index": index,
    }
    if chunk.claims is not None:
        names = {**lease_names(chunk, claim), **names}
    return {chunk.step.name: {"result_index": index}, **names} if chunk.names.result_index else names


def _position_names(chunk: ChunkInput, index: int) -> dict[str, Any]:
    """Return the names for the position of an iteration in its loop."""
    if chunk.claims is not None:
        return {"index": index, "index0": index, "first": index == 0}
    last, total = index == chunk.total - 1, chunk.total
    return {
        "index": index,
        "index0": index,
        "count": total,
        "size": total,
        "length": total,
        "first": index == 0,
        "last": last,
    }


def _set_names(
    run_ctx: Mapping[str, Json], loop: Mapping[str, Json], outer: Mapping[str, Json], at: int
) -> dict[str, Any]:
    """Return the names that this iteration, those before it and the playbook have set, and the time."""
    ctx: dict[str, Any] = {name: Chain(run_ctx, loop, outer.get(name) or {}) for name in ("ctx", "vars", VARS_CACHE)}
    return {**ctx, "now": templates.Clock(at)}
