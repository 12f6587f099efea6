"""The interface between a pipeline and the step run or iteration that it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from noetl_compiler.graph import Json, Span
from noetl_temporal.machine.circuit_state import CircuitState
from noetl_temporal.machine.scope import Chain
from noetl_temporal.machine.tasks.calls import Caller

__all__ = ["Host"]


class Host(Caller, Protocol):
    """The host of a pipeline: a step run of the playbook, or an iteration of a loop; ``run_id`` is its id.
    ``circuits`` are those of the whole machine.
    """

    parent_id: int
    run_id: str
    meta: Mapping[str, Any]
    circuits: dict[str, CircuitState]

    def scope(self, *layers: Mapping[str, Any]) -> Chain:
        """Return the visible names, with the given layers innermost."""
        ...

    def assign(self, values: Sequence[tuple[str, Json]]) -> None:
        """Apply ``set`` entries, (target, value) each."""
        ...

    def warn(self, message: str, span: Span) -> None:
        """Record a warning about a span of the playbook, once per span."""
        ...
