"""A framed run and the same playbook without frames: status, results by index, failures and rows must be the same,
whatever happened to the processes of the frames.

Only playbooks are taken whose story depends neither on the order in which calls end nor on time, as in temporal.py.
"""

from __future__ import annotations

import msgspec

from dev.simulate.story import Finding, Story
from dev.simulate.told import Told, differences, told_by
from dev.simulate.world import World
from noetl_compiler.graph import Graph
from noetl_temporal.machine.commands import CallTool, StartTimer

__all__ = ["check_unframed"]

ORDERS = 3
"""Random orders in which the unframed run must come to the same."""

SURE = 24
"""Random orders in which it must before a difference is a finding: some stories hardly ever depend on the order."""

ROUGH = 2
"""Framed runs that are compared."""


def check_unframed(story: Story) -> None:
    """Raises Finding."""
    if not any(tale.name and tale.given.frame for tale in story.tales.values()):
        return
    bare = _without_frames(story.graph)
    first = _came_to(story, bare, 0)
    if first is None or any(_came_to(story, bare, order) != first for order in range(1, ORDERS)):
        return
    for order in range(ROUGH):
        framed = _run(story, story.graph, order, is_rough=True)
        told = list(differences(first, told_by(framed), ("unframed", "framed")))
        if told and all(_came_to(story, bare, more) == first for more in range(ORDERS, SURE)):
            raise Finding("a framed run comes to something else", told[0][:1500])


def _without_frames(graph: Graph) -> Graph:
    def bare(step: object) -> object:
        loop = getattr(step, "loop", None)
        return step if loop is None else msgspec.structs.replace(step, loop=msgspec.structs.replace(loop, frame=None))  # type: ignore[type-var]

    return msgspec.structs.replace(graph, steps={name: bare(step) for name, step in graph.steps.items()})


def _came_to(story: Story, graph: Graph, order: int) -> Told | None:
    """None for a run that depends on time, or does not end."""
    try:
        alone = _run(story, graph, order, is_rough=False)
    except Finding:
        return None
    commands = [one for tale in alone.tales.values() for turn in tale.turns for one in turn.commands]
    timed = any(isinstance(one, StartTimer) and one.timer_id.endswith(":timeout") for one in commands)
    timed = timed or any(isinstance(one, CallTool) and one.call.timeout is not None for one in commands)
    return None if timed else told_by(alone)


def _run(story: Story, graph: Graph, order: int, *, is_rough: bool) -> Story:
    made = Story(story.seed, story.text, graph)
    World(made, order, is_rough=is_rough).run()
    return made
