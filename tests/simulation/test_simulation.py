"""Some hundreds of random runs break no invariant; the same seed gives the same run; every mutation is detected."""

from __future__ import annotations

import pytest

from dev.simulate.frames import FrameWorld
from dev.simulate.mutation import MissingTargetError, Mutation, apply_mutation, replaced_by, run_mutation
from dev.simulate.mutations import MUTATIONS
from dev.simulate.run_trace import Finding, RunTrace
from dev.simulate.runs import simulate
from dev.simulate.tool_outcomes import ToolOutcomes
from dev.simulate.world import World
from noetl_compiler import compile_or_raise
from noetl_temporal import machine

SEEDS = 250
AT_ONCE = 25
QUICK = (
    "19a: the stop of a machine",
    "6a: a cancel meets the final step",
    "34: a route that raises is an error",
    "41: a paused run begins nothing",
    "41: timeouts count unpaused time only",
    "42: a stop lets held steps go",
    "the budget of a workflow task",
    "calls in flight are bounded",
    "ids leave room for derived rows",
    "22d: no segment is forgotten",
    "22d: no named item is called again",
    "22d: calls in flight go on",
    "22d: nothing begins while the store is away",
    "24: a stop gives rows back",
    "24: every row is settled",
    "24: what was cut off is released",
    "22b: an open circuit refuses calls",
    "22b: failures open a circuit",
)
"""Safeguards whose absence shows within seconds."""


@pytest.mark.parametrize("first", range(1, SEEDS, AT_ONCE))
def test_random_runs_break_no_invariant(first: int) -> None:
    result = [simulate(seed) for seed in range(first, first + AT_ONCE)]
    message = [f"python -m dev.simulate --seed {run.seed}: {run.finding}" for run in result if run.finding is not None]
    assert not message, "\n".join(message)


def test_a_pause_lets_more_signals_come_before_the_end() -> None:
    assert simulate(7710084).finding is None


def test_the_first_finding_in_a_frame_is_kept() -> None:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x}\n"
    graph = compile_or_raise(f"{head}workflow: [{{step: start, tool: {{kind: noop}}}}]\n")
    frame_world = FrameWorld(World(RunTrace(1, "", graph)), ToolOutcomes(1), longest_ms=20, sink_fails=0.0, rows=[])
    frame_world.note(Finding("the first", ""))
    frame_world.note(Finding("its consequence", ""))
    assert frame_world.finding is not None
    assert frame_world.finding.invariant == "the first"


def test_the_same_seed_is_the_same_run() -> None:
    for seed in range(1, 6):
        case, other = simulate(seed), simulate(seed)
        assert case.text == other.text
        assert case.run_trace == other.run_trace


@pytest.mark.parametrize(
    "mutation", [case for case in MUTATIONS if case.safeguard in QUICK], ids=lambda case: case.safeguard
)
def test_every_mutation_is_detected(mutation: Mutation) -> None:
    assert run_mutation(mutation, 1, 60).invariant


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda case: case.safeguard)
def test_a_mutation_changes_what_the_machine_has(mutation: Mutation) -> None:
    target = mutation.target
    with apply_mutation(mutation):
        assert mutation.target is not target


def test_a_mutation_without_a_target_is_an_error() -> None:
    with (
        pytest.raises(MissingTargetError, match="machine has no gone: the mutation must follow"),
        apply_mutation(Mutation("a safeguard", machine, "gone", replaced_by(None))),
    ):
        pass
