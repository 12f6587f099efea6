"""Safeguards of held steps, disabled one at a time (mutations.py)."""

from __future__ import annotations

from typing import Any

from dev.simulate.mutation import Mutation, replaced_by, wrapped_by
from noetl_temporal.machine.holding import Holding
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.regions.machine import RegionMachine

__all__ = ["HOLD_MUTATIONS"]


def _nothing(*_: Any) -> None:
    pass


def _none(*_: Any) -> set[str]:
    return set()


def _answers_though_paused(on_answer: Any, self: Any, wait: Any, answer: Any) -> None:
    pause, self.state.pause = self.state.pause, None
    on_answer(self, wait, answer)
    self.state.pause = pause


def _forgets_decisions(on_answer: Any, self: Any, wait: Any, answer: Any) -> None:
    if answer.decision is None:
        on_answer(self, wait, answer)


HOLD_MUTATIONS = (
    Mutation("42: a stop lets held steps go", Holding, "_end_all_holds", replaced_by(_nothing)),
    Mutation("42: timeouts around a held step wait", Holding, "_runs_with_holds", replaced_by(_none)),
    Mutation("42: a decision has its effect", Holding, "_apply_answer", wrapped_by(_forgets_decisions)),
    Mutation("42: a paused chunk repeats nothing", Holding, "_apply_answer", wrapped_by(_answers_though_paused)),
    Mutation("42: what was decided in a pause is done", RegionMachine, "_retry_decided", replaced_by(_nothing)),
    Mutation("42: the playbook knows of held items", LoopMachine, "_wait_opened", replaced_by(_nothing)),
)
"""Each must be detected."""
