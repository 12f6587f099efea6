"""Find the steps in the body of each loop over steps, and the routes that cross its border (dev/decisions/0010).

A loop without a task of its own repeats the steps between it and its end, the step with ``end_loop: <loop>``. These
steps are its region, which contains neither the loop nor its end. Regions nest: a step belongs to the innermost loop
around it.

The algorithm: steps reachable from the loop without passing its end *may* be inside; those of them from which the end
is reachable *are*. Then each level is walked, from the outside in: first the workflow, in which a loop leads directly
to its end, then the steps of each loop. A route to a step of another level crosses a border: it enters a loop if its
target is inside a loop that does not contain its source; otherwise it leaves one.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl_compiler.syntax import Arc, Playbook, Step
from noetl_compiler.syntax_queries import arcs_of

__all__ = ["MAX_REPEATED_STEPS", "Crossing", "Regions", "regions_of"]

MAX_REPEATED_STEPS = 200_000
"""Steps inside of loops over steps, each counted once for every loop around it."""


class Crossing(msgspec.Struct, frozen=True):
    """A route across the border of ``loop`` other than through its start or end."""

    arc: Arc
    loop: str
    enters: bool


class Regions(msgspec.Struct):
    """The loops over steps of a playbook, and the steps that they repeat.

    ``ends``: loop -> the step that ends it. ``owner``: step -> the innermost loop around it. ``closed_loops``: loops
    whose steps lead to their end. ``exceeding_loop``: the loop at which MAX_REPEATED_STEPS was exceeded; then nothing
    else is known.
    """

    ends: dict[str, Step]
    owner: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    crossings: list[Crossing] = msgspec.field(default_factory=list[Crossing])
    closed_loops: set[str] = msgspec.field(default_factory=set[str])
    exceeding_loop: str | None = None


def regions_of(playbook: Playbook, entry: str, final: str) -> Regions:
    """Return the regions of a playbook."""
    steps = {step.name.text: step for step in playbook.steps}
    regions = Regions(_ends(playbook, steps))
    if regions.ends:
        try:
            _RegionFinder(steps, regions, final).find_owners(entry)
        except _TooManyStepsError as error:
            regions.exceeding_loop = error.loop
    return regions


class _TooManyStepsError(Exception):
    def __init__(self, loop: str) -> None:
        super().__init__(loop)
        self.loop = loop


def _ends(playbook: Playbook, steps: Mapping[str, Step]) -> dict[str, Step]:
    """Return loop -> its end, for loops without a task."""
    ends: dict[str, Step] = {}
    for step in playbook.steps:
        loop = steps.get(step.ended_loop.text) if step.ended_loop else None
        if loop is not None and loop.loop is not None and not loop.tasks and loop is not step:
            ends.setdefault(loop.name.text, step)
    return ends


class _RegionFinder:
    def __init__(self, steps: Mapping[str, Step], regions: Regions, final: str) -> None:
        self._steps = steps
        self._regions = regions
        self._final = final
        self._loop_of = {end.name.text: loop for loop, end in regions.ends.items()}
        self._reachable = self._reachable_by_loop()
        self._steps_inside = {loop: self._steps_leading_to_end(loop) for loop in regions.ends}
        self._loops_by_step = self._loops_of_steps()
        self._settled_steps: set[str] = set()
        regions.closed_loops.update(loop for loop in regions.ends if self._leads_to_end(loop))

    def find_owners(self, entry: str) -> None:
        """Find the owner of every step, from the outside in; first of the reachable steps, then of the others."""
        self._walk_levels([entry, self._final])
        reachable_count = len(self._regions.crossings)
        for loop in self._regions.ends:
            if loop not in self._settled_steps:
                self._walk_levels([loop])
        del self._regions.crossings[reachable_count:]  # the level of unreachable steps is unknown

    def _walk_levels(self, starts: list[str]) -> None:
        levels = self._walk_level(None, starts)
        while levels:
            loop = levels.pop()
            levels += self._walk_level(loop, self._successors(loop, loop))

    def _walk_level(self, owner: str | None, starts: list[str]) -> list[str]:
        """Walk the steps of one level; the loops among them are the next levels."""
        loops: list[str] = []
        visited_steps: set[str] = set()
        pending = starts[::-1]
        while pending:
            name = pending.pop()
            if name in visited_steps or name not in self._steps:
                continue
            visited_steps.add(name)
            if owner is not None:
                self._regions.owner[name] = owner
            if name in self._regions.ends:
                loops.append(name)
                pending.append(self._regions.ends[name].name.text)
            else:
                pending += self._successors(name, owner)[::-1]
        self._settled_steps |= visited_steps
        return loops

    def _successors(self, name: str, owner: str | None) -> list[str]:
        """Return the successors of a step within this level; routes across a border are recorded and not followed."""
        successors: list[str] = []
        for arc in arcs_of(self._steps[name]):
            to = arc.to.text
            if owner is not None and self._loop_of.get(to) == owner:
                continue
            if owner is not None and (to == self._final or to in self._settled_steps):
                self._regions.crossings.append(Crossing(arc, owner, enters=False))
            elif (other := self._entered_loop(name, to)) is not None:
                self._regions.crossings.append(Crossing(arc, other, enters=True))
            else:
                successors.append(to)
        return successors

    def _entered_loop(self, name: str, to: str) -> str | None:
        """Return the loop whose region or end a route enters from outside; None if there is none."""
        return next(
            (loop for loop in self._loops_by_step.get(to, ()) if name != loop and name not in self._reachable[loop]),
            None,
        )

    def _loops_of_steps(self) -> dict[str, list[str]]:
        """Return step -> the loops that contain it or that it ends, in the order of the text."""
        loops: dict[str, list[str]] = {}
        for loop, end in self._regions.ends.items():
            for name in (*self._steps_inside[loop], end.name.text):
                loops.setdefault(name, []).append(loop)
        return loops

    def _leads_to_end(self, loop: str) -> bool:
        end = self._regions.ends[loop].name.text
        return bool(self._steps_inside[loop]) or any(arc.to.text == end for arc in arcs_of(self._steps[loop]))

    def _reachable_by_loop(self) -> dict[str, set[str]]:
        reachable: dict[str, set[str]] = {}
        count = 0
        for loop in self._regions.ends:
            reachable[loop] = self._reachable_inside(loop)
            count += len(reachable[loop])
            if count > MAX_REPEATED_STEPS:
                raise _TooManyStepsError(loop)
        return reachable

    def _reachable_inside(self, loop: str) -> set[str]:
        """Return the steps reachable from a loop on paths that contain neither its end nor the loop itself."""
        border = (loop, self._regions.ends[loop].name.text)
        reachable_steps: set[str] = set()
        pending = [arc.to.text for arc in arcs_of(self._steps[loop])]
        while pending:
            name = pending.pop()
            if name not in reachable_steps and name in self._steps and name not in border:
                reachable_steps.add(name)
                pending += [arc.to.text for arc in arcs_of(self._steps[name])]
        return reachable_steps

    def _steps_leading_to_end(self, loop: str) -> set[str]:
        """Return those of the reachable steps from which the end is reachable."""
        reachable_steps, end = self._reachable[loop], self._regions.ends[loop].name.text
        predecessors: dict[str, list[str]] = {}
        for name in reachable_steps:
            for arc in arcs_of(self._steps[name]):
                predecessors.setdefault(arc.to.text, []).append(name)
        inside: set[str] = set()
        pending = list(predecessors.get(end, ()))
        while pending:
            name = pending.pop()
            if name not in inside:
                inside.add(name)
                pending += predecessors.get(name, ())
        return inside
