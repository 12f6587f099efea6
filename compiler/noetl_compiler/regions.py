"""Find the region of each loop over steps, and the routes that cross its border (dev/decisions/0010).

A loop without a task of its own repeats the steps between it and its end, which is the step with ``end_loop: <loop>``.
These steps are its region. The loop itself and its end are outside. Regions nest, and each step is assigned to the
innermost loop whose region contains it.

A step is in the region of a loop if it is on a path from the loop to its end that passes neither of them in between.
Such paths may also pass through the regions of inner loops. So the steps are assigned to loops level by level, from the
outside in: first the level of the workflow, then the level of each loop. Within a level, the only successor of a loop
over steps is its end.

A route to a step that is on another level crosses a border. It enters a loop if its target is in the region of a loop
that does not contain its source; otherwise it leaves one.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl_compiler.syntax import Arc, Playbook, Step
from noetl_compiler.syntax_queries import arcs_of

__all__ = ["MAX_REPEATED_STEPS", "Crossing", "Regions", "regions_of"]

MAX_REPEATED_STEPS = 200_000
"""The maximum number of steps in all regions together. A step in nested regions counts once for each of them."""


class Crossing(msgspec.Struct, frozen=True):
    """A route that crosses the border of ``loop`` other than through the loop itself or its end: into its region if
    ``enters``, else out of it.
    """

    arc: Arc
    loop: str
    enters: bool


class Regions(msgspec.Struct):
    """The loops over steps of a playbook, and their regions.

    ``ends``: loop -> the step that ends it. ``innermost_loop``: step -> the innermost loop that repeats it; the steps
    of the workflow's level have none. ``loops_reaching_end``: the loops whose end is reachable from them.
    ``loop_over_limit``: the loop at which MAX_REPEATED_STEPS was exceeded; then all fields but ``ends`` are empty.
    """

    ends: dict[str, Step]
    innermost_loop: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    crossings: list[Crossing] = msgspec.field(default_factory=list[Crossing])
    loops_reaching_end: set[str] = msgspec.field(default_factory=set[str])
    loop_over_limit: str | None = None

    @property
    def loops_by_end(self) -> dict[str, str]:
        """The name of the step that ends a loop -> the loop."""
        return {end.name.text: loop for loop, end in self.ends.items()}


def regions_of(playbook: Playbook, entry: str, final: str) -> Regions:
    """Return the regions of a playbook."""
    steps = {step.name.text: step for step in playbook.steps}
    regions = Regions(_ends(playbook, steps))
    if regions.ends:
        try:
            _RegionFinder(steps, regions, final).assign_steps(entry)
        except _TooManyStepsError as error:
            regions.loop_over_limit = error.loop
    return regions


class _TooManyStepsError(Exception):
    def __init__(self, loop: str) -> None:
        super().__init__(loop)
        self.loop = loop


def _ends(playbook: Playbook, steps: Mapping[str, Step]) -> dict[str, Step]:
    """Return loop -> the step that ends it, for loops without a task."""
    ends: dict[str, Step] = {}
    for step in playbook.steps:
        loop = steps.get(step.ended_loop.text) if step.ended_loop else None
        if loop is not None and loop.loop is not None and not loop.tasks and loop is not step:
            ends.setdefault(loop.name.text, step)
    return ends


class _RegionFinder:
    """Fills in the fields of ``regions``. The constructor raises _TooManyStepsError."""

    def __init__(self, steps: Mapping[str, Step], regions: Regions, final: str) -> None:
        self._steps = steps
        self._regions = regions
        self._final = final
        self._loops_by_end = regions.loops_by_end
        self._reachable_steps = self._reachable_steps_by_loop()
        self._region_steps = {loop: self._steps_before_end(loop) for loop in regions.ends}
        self._loops_by_step = self._find_loops_by_step()
        self._assigned_steps: set[str] = set()
        regions.loops_reaching_end.update(loop for loop in regions.ends if self._reaches_end(loop))

    def assign_steps(self, entry: str) -> None:
        """Assign every step to its innermost loop, level by level, and record the crossings. Unreachable loops and
        their regions are assigned last.
        """
        self._assign_levels([entry, self._final])
        crossing_count = len(self._regions.crossings)
        for loop in self._regions.ends:
            if loop not in self._assigned_steps:
                self._assign_levels([loop])
        del self._regions.crossings[crossing_count:]  # unknown, as the level of an unreachable loop is arbitrary

    def _assign_levels(self, starts: list[str]) -> None:
        """Assign the steps reachable from ``starts``, which are on the level of the workflow."""
        pending_loops = self._assign_level(None, starts)
        while pending_loops:
            loop = pending_loops.pop()
            pending_loops += self._assign_level(loop, self._successors(loop, loop))

    def _assign_level(self, level: str | None, starts: list[str]) -> list[str]:
        """Assign the steps of one level: that of the loop ``level``, or of the workflow if it is None. Return the loops
        over steps among them.
        """
        loops: list[str] = []
        visited_steps: set[str] = set()
        pending = starts[::-1]
        while pending:
            name = pending.pop()
            if name in visited_steps or name not in self._steps:
                continue
            visited_steps.add(name)
            if level is not None:
                self._regions.innermost_loop[name] = level
            if name in self._regions.ends:
                loops.append(name)
                pending.append(self._regions.ends[name].name.text)
            else:
                pending += self._successors(name, level)[::-1]
        self._assigned_steps |= visited_steps
        return loops

    def _successors(self, step: str, level: str | None) -> list[str]:
        """Return the successors of a step that are on this level. Routes that cross a border are recorded instead."""
        successors: list[str] = []
        for arc in arcs_of(self._steps[step]):
            target = arc.target.text
            if level is not None and self._loops_by_end.get(target) == level:
                continue
            if level is not None and (target == self._final or target in self._assigned_steps):
                self._regions.crossings.append(Crossing(arc, level, enters=False))
            elif (entered_loop := self._entered_loop(step, target)) is not None:
                self._regions.crossings.append(Crossing(arc, entered_loop, enters=True))
            else:
                successors.append(target)
        return successors

    def _entered_loop(self, source: str, target: str) -> str | None:
        """Return the loop that a route from ``source`` enters at ``target``, a step of its region or its end; None if
        it enters none.
        """
        loops = self._loops_by_step.get(target, ())
        return next(
            (loop for loop in loops if source != loop and source not in self._reachable_steps[loop]),
            None,
        )

    def _find_loops_by_step(self) -> dict[str, list[str]]:
        """Return step -> the loops that repeat it or that it ends, in the order of the text."""
        loops: dict[str, list[str]] = {}
        for loop, end in self._regions.ends.items():
            for name in (*self._region_steps[loop], end.name.text):
                loops.setdefault(name, []).append(loop)
        return loops

    def _reaches_end(self, loop: str) -> bool:
        end = self._regions.ends[loop].name.text
        return bool(self._region_steps[loop]) or any(arc.target.text == end for arc in arcs_of(self._steps[loop]))

    def _reachable_steps_by_loop(self) -> dict[str, set[str]]:
        reachable_steps: dict[str, set[str]] = {}
        count = 0
        for loop in self._regions.ends:
            reachable_steps[loop] = self._steps_after_loop(loop)
            count += len(reachable_steps[loop])
            if count > MAX_REPEATED_STEPS:
                raise _TooManyStepsError(loop)
        return reachable_steps

    def _steps_after_loop(self, loop: str) -> set[str]:
        """Return the steps reachable from a loop by paths that pass neither the loop again nor its end."""
        border = (loop, self._regions.ends[loop].name.text)
        reachable_steps: set[str] = set()
        pending = [arc.target.text for arc in arcs_of(self._steps[loop])]
        while pending:
            name = pending.pop()
            if name not in reachable_steps and name in self._steps and name not in border:
                reachable_steps.add(name)
                pending += [arc.target.text for arc in arcs_of(self._steps[name])]
        return reachable_steps

    def _steps_before_end(self, loop: str) -> set[str]:
        """Return those of the steps reachable from a loop from which its end is reachable: the region, with those of
        inner loops.
        """
        reachable_steps, end = self._reachable_steps[loop], self._regions.ends[loop].name.text
        predecessors: dict[str, list[str]] = {}
        for name in reachable_steps:
            for arc in arcs_of(self._steps[name]):
                predecessors.setdefault(arc.target.text, []).append(name)
        region_steps: set[str] = set()
        pending = list(predecessors.get(end, ()))
        while pending:
            name = pending.pop()
            if name not in region_steps:
                region_steps.add(name)
                pending += predecessors.get(name, ())
        return region_steps
