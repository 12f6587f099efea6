"""Which steps make up the body of a loop, and which routes cross its border (dev/decisions/0010).

A loop without a task of its own repeats the steps between it and its end, the step with ``end_loop: <loop>``. The
end itself is outside the region, as the loop is. Regions nest: a step belongs to the innermost loop around it.

How it is found. The steps reachable from the loop without passing its end *may* be inside; those from which the end is
reachable *are*. Then the levels are walked from the outside in: first the workflow, in which a loop leads directly to
its end, then the steps of each loop. A route to a step of another level crosses a border: it enters a loop if its
target is inside of a loop that its source is not in; otherwise it leaves one.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl_compiler.syntax import Arc, Playbook, Step
from noetl_compiler.syntax_queries import arcs_of

__all__ = ["MAX_REPEATED", "Crossing", "Regions", "regions_of"]

MAX_REPEATED = 200_000
"""Steps inside of loops over steps, each counted once for every loop around it."""


class Crossing(msgspec.Struct, frozen=True):
    """A route across the border of ``loop`` other than through its start or end."""

    arc: Arc
    loop: str
    enters: bool


class Regions(msgspec.Struct):
    """The loops over steps of a playbook, and the steps that they repeat.

    ``ends``: loop -> the step that ends it. ``owner``: step -> the innermost loop around it. ``closed``: loops whose
    steps do lead to their end. ``excess``: the loop at which the budget was spent; then nothing else is known.
    """

    ends: dict[str, Step]
    owner: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    crossings: list[Crossing] = msgspec.field(default_factory=list[Crossing])
    closed: set[str] = msgspec.field(default_factory=set[str])
    excess: str | None = None


def regions_of(playbook: Playbook, entry: str, final: str) -> Regions:
    """Return the regions of a playbook."""
    steps = {step.name.text: step for step in playbook.steps}
    found = Regions(_ends(playbook, steps))
    if found.ends:
        try:
            _Walk(steps, found, final).run(entry)
        except _BudgetSpentError as spent:
            found.excess = spent.loop
    return found


class _BudgetSpentError(Exception):
    def __init__(self, loop: str) -> None:
        super().__init__(loop)
        self.loop = loop


def _ends(playbook: Playbook, steps: Mapping[str, Step]) -> dict[str, Step]:
    """Loop -> its end, for loops without a task."""
    ends: dict[str, Step] = {}
    for step in playbook.steps:
        loop = steps.get(step.ends.text) if step.ends else None
        if loop is not None and loop.loop is not None and not loop.tasks and loop is not step:
            ends.setdefault(loop.name.text, step)
    return ends


class _Walk:
    def __init__(self, steps: Mapping[str, Step], found: Regions, final: str) -> None:
        self._steps = steps
        self._found = found
        self._final = final
        self._loop_of = {end.name.text: loop for loop, end in found.ends.items()}
        self._reached = self._reached_by_loop()
        self._inside = {loop: self._leading_to_end(loop) for loop in found.ends}
        self._around = self._loops_around()
        self._settled: set[str] = set()
        found.closed.update(loop for loop in found.ends if self._leads_to_end(loop))

    def run(self, entry: str) -> None:
        """Settle the owner of every step, from the outside in; then of what nothing leads to."""
        self._descend([entry, self._final])
        known = len(self._found.crossings)
        for loop in self._found.ends:
            if loop not in self._settled:
                self._descend([loop])
        del self._found.crossings[known:]  # the level of what is unreached is anybody's guess

    def _descend(self, starts: list[str]) -> None:
        levels = self._level(None, starts)
        while levels:
            loop = levels.pop()
            levels += self._level(loop, self._successors(loop, loop))

    def _level(self, owner: str | None, starts: list[str]) -> list[str]:
        """Walk the steps of one level; the loops among them are the next levels."""
        loops: list[str] = []
        seen: set[str] = set()
        waiting = starts[::-1]
        while waiting:
            name = waiting.pop()
            if name in seen or name not in self._steps:
                continue
            seen.add(name)
            if owner is not None:
                self._found.owner[name] = owner
            if name in self._found.ends:
                loops.append(name)
                waiting.append(self._found.ends[name].name.text)
            else:
                waiting += self._successors(name, owner)[::-1]
        self._settled |= seen
        return loops

    def _successors(self, name: str, owner: str | None) -> list[str]:
        """Return the successors of a step within this level; routes across a border are recorded and not followed."""
        successors: list[str] = []
        for arc in arcs_of(self._steps[name]):
            to = arc.to.text
            if owner is not None and self._loop_of.get(to) == owner:
                continue
            if owner is not None and (to == self._final or to in self._settled):
                self._found.crossings.append(Crossing(arc, owner, enters=False))
            elif (other := self._entered(name, to)) is not None:
                self._found.crossings.append(Crossing(arc, other, enters=True))
            else:
                successors.append(to)
        return successors

    def _entered(self, name: str, to: str) -> str | None:
        """Return the loop whose region or end a route enters from outside; None if there is none."""
        return next(
            (loop for loop in self._around.get(to, ()) if name != loop and name not in self._reached[loop]), None
        )

    def _loops_around(self) -> dict[str, list[str]]:
        """Step -> the loops that it is inside of or ends, in the order of the text."""
        around: dict[str, list[str]] = {}
        for loop, end in self._found.ends.items():
            for name in (*self._inside[loop], end.name.text):
                around.setdefault(name, []).append(loop)
        return around

    def _leads_to_end(self, loop: str) -> bool:
        end = self._found.ends[loop].name.text
        return bool(self._inside[loop]) or any(arc.to.text == end for arc in arcs_of(self._steps[loop]))

    def _reached_by_loop(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        count = 0
        for loop in self._found.ends:
            found[loop] = self._reach(loop)
            count += len(found[loop])
            if count > MAX_REPEATED:
                raise _BudgetSpentError(loop)
        return found

    def _reach(self, loop: str) -> set[str]:
        """Return the steps reachable from a loop on paths that contain neither its end nor the loop itself."""
        border = (loop, self._found.ends[loop].name.text)
        reached: set[str] = set()
        waiting = [arc.to.text for arc in arcs_of(self._steps[loop])]
        while waiting:
            name = waiting.pop()
            if name not in reached and name in self._steps and name not in border:
                reached.add(name)
                waiting += [arc.to.text for arc in arcs_of(self._steps[name])]
        return reached

    def _leading_to_end(self, loop: str) -> set[str]:
        """Return those of the reachable steps from which the end is reachable."""
        reached, end = self._reached[loop], self._found.ends[loop].name.text
        before: dict[str, list[str]] = {}
        for name in reached:
            for arc in arcs_of(self._steps[name]):
                before.setdefault(arc.to.text, []).append(name)
        inside: set[str] = set()
        waiting = list(before.get(end, ()))
        while waiting:
            name = waiting.pop()
            if name not in inside:
                inside.add(name)
                waiting += before.get(name, ())
        return inside
