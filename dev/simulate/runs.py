"""Runs one seed: its playbook is compiled, run in its world, and checked against the invariants."""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass

from dev.simulate.breakers import with_breakers
from dev.simulate.cursors import with_cursors
from dev.simulate.heads import with_final_step, with_priority, with_workbook
from dev.simulate.invariants import check
from dev.simulate.limits import patched_limits
from dev.simulate.operators import with_holds
from dev.simulate.pauses import check_same_without_pauses
from dev.simulate.playbooks import playbook
from dev.simulate.region_cursors import with_region_cursors
from dev.simulate.regions import with_branches
from dev.simulate.run_trace import Finding, RunTrace
from dev.simulate.sub_playbooks import with_sub_playbooks
from dev.simulate.tool_sinks import with_tool_sinks
from dev.simulate.unframed import check_unframed
from dev.simulate.waits import with_waits
from dev.simulate.world import World
from noetl_compiler import compile_text

__all__ = ["Result", "generated_playbook", "simulate"]

ADDED = (
    with_branches,
    with_waits,
    with_sub_playbooks,
    with_cursors,
    with_region_cursors,
    with_tool_sinks,
    with_breakers,
    with_holds,
    with_final_step,
    with_workbook,
    with_priority,
)
"""Additions to some playbooks. Each has random numbers of its own, so that a new one changes no other playbook."""


@dataclass
class Result:
    """``run_trace`` is None for a playbook that the compiler refuses; ``finding`` what broke, None when all holds."""

    seed: int
    text: str
    run_trace: RunTrace | None
    finding: Finding | None = None


def generated_playbook(seed: int) -> str:
    """The text of the seed's playbook."""
    text = playbook(random.Random(f"{seed}/playbook"))
    for add in ADDED:
        text = add(text, seed)
    return text


def simulate(seed: int) -> Result:
    """Generate, run and check one playbook. The same seed gives the same result."""
    text = generated_playbook(seed)
    graph = compile_text(text, f"seed {seed}").graph
    if graph is None:
        return Result(seed, text, None)
    run_trace = RunTrace(seed, text, graph)
    try:
        with patched_limits(seed):
            World(run_trace).run()
            check(run_trace)
            check_unframed(run_trace)
            check_same_without_pauses(run_trace)
    except Finding as finding:
        return Result(seed, text, run_trace, finding)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        invariant = f"{type(error).__name__} at {frame.filename.rpartition('/')[2]}:{frame.lineno}"
        return Result(seed, text, run_trace, Finding(invariant, traceback.format_exc()))
    return Result(seed, text, run_trace)
