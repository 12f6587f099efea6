"""Checkpoints of a state: what was changed is as before, and runs that nobody touched are not copied."""

from __future__ import annotations

from noetl_temporal.machine.rollback import Checkpoint, Runs
from noetl_temporal.machine.state import Iteration, LoopState, Pending, PipelineState, state_snapshot

COUNT = 500


def iteration(index: int) -> Iteration:
    return Iteration(id=str(index), event_id=1, started=1, index=index, pipeline=PipelineState())


def state() -> tuple[LoopState, Runs[Iteration]]:
    runs = Runs({str(index): iteration(index) for index in range(COUNT)})
    return LoopState(runs=runs, pending={"a": Pending("call", "0")}), runs


def pipeline_of(run: Iteration) -> PipelineState:
    assert run.pipeline is not None
    return run.pipeline


def test_a_changed_state_is_as_before() -> None:
    state_, runs = state()
    before = state_snapshot(state_)
    checkpoint = Checkpoint(state_, runs)
    pipeline_of(runs["3"]).pending_id = "x"
    pipeline_of(runs["3"]).progress.rebound_input["name"] = 1
    del runs["4"]
    runs["new"] = iteration(COUNT)
    for run in runs.all_mutable()[10:20]:
        run.stop = "timeout"
    mutable = runs.get_mutable("30")
    assert mutable is not None
    mutable.ctx["name"] = 1
    state_.pending["a"].is_cancelled = True
    state_.ready.append("3")
    assert state_snapshot(state_) != before
    assert state_snapshot(checkpoint.state()) == before
    checkpoint.close()
    assert runs.get_mutable("nobody") is None


def test_only_accessed_step_runs_are_copied() -> None:
    state_, runs = state()
    checkpoint = Checkpoint(state_, runs)
    assert sum(run.index for run in runs.values()) == sum(range(COUNT))
    for _ in range(3):
        runs["3"].stop = "timeout"
    assert list(runs.originals or {}) == ["3"]
    untouched_run = list(runs.values())[4]
    assert checkpoint.state().runs["4"] is untouched_run
    checkpoint.close()
    assert runs["5"].index == 5
    assert runs.originals is None
