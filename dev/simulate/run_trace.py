"""The trace of a simulated run: the turns of every machine in it, and the invariant that it breaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dev.simulate.simulated_values import SimulatedValues
from dev.simulate.tables import RowChange
from noetl_compiler.graph import Graph
from noetl_temporal.machine.commands import Command, Emit, Finish
from noetl_temporal.machine.domain import DomainEvent

__all__ = ["Finding", "MachineTrace", "RunTrace", "Turn"]


class Finding(AssertionError):  # noqa: N818 - it is no error of this program
    """A broken invariant. ``invariant`` names it in a few words."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail


@dataclass
class Turn:
    """One fact that was fed to a machine, and its commands.

    ``is_restored``: the machine was restored from its snapshot just before, as continue-as-new does;
    ``has_work_left``: something that may begin is left for the next turn.
    """

    fact: Any
    commands: list[Command]
    is_restored: bool = False
    has_work_left: bool = False
    is_budget_spent: bool = False


@dataclass
class MachineTrace:
    """The turns of one machine. ``name`` is "" for the playbook, else the loop's id below its parent's; ``chunk_input``
    is a loop's input. ``terminated``: the machine was ended from outside, so it need not have ended what it began.
    """

    name: str
    chunk_input: Any = None
    turns: list[Turn] = field(default_factory=list[Turn])
    terminated: bool = False
    stop_requested: bool = False
    report: Any = None

    @property
    def events(self) -> list[DomainEvent]:
        return [command.event for turn in self.turns for command in turn.commands if isinstance(command, Emit)]

    @property
    def finish(self) -> Finish | None:
        last = self.turns[-1].commands[-1:] if self.turns else []
        return last[0] if last and isinstance(last[0], Finish) else None


@dataclass
class RunTrace:
    """A whole run: ``traces`` by name, the playbook's first; ``row_changes`` are those of claimed rows."""

    seed: int
    text: str
    graph: Graph
    traces: dict[str, MachineTrace] = field(default_factory=dict[str, MachineTrace])
    stored: list[str] = field(default_factory=list[str])
    row_changes: list[RowChange] = field(default_factory=list[RowChange])
    store: SimulatedValues = field(init=False, compare=False)

    @property
    def main(self) -> MachineTrace:
        return self.traces[""]
