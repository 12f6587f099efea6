"""Results of steps that cannot have run yet.

From the step whose result is read the ways are followed until they come to the reader, each step once. A playbook
whose every template reads the step just before costs next to nothing; the search as a whole is bounded, and beyond
its bound nothing is told.
"""

from __future__ import annotations

from collections import deque

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related
from noetl_compiler.lower import final_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Step
from noetl_compiler.syntax_queries import arcs_of
from noetl_compiler.templating.check import Facts
from noetl_compiler.templating.locate import find_path
from noetl_compiler.templating.template_sites import RenderedAt, Use
from noetl_compiler.visible_names import VisibleNames

__all__ = ["Order", "warn_of_early_results"]

_MOST_FOLLOWED = 1_000_000
_AFTER_THE_CALL = (RenderedAt.OUTCOME, RenderedAt.AFTER, RenderedAt.ARC)


class Order:
    """Which step can run before which."""

    def __init__(self, playbook: Playbook) -> None:
        self.steps: dict[str, Step] = {step.name.text: step for step in playbook.steps}
        self._final = final_of(playbook)
        self._searches: dict[str, tuple[set[str], deque[str]]] = {}
        is_clear = len(self.steps) == len(playbook.steps)  # two steps of one name are told elsewhere
        self._left = _MOST_FOLLOWED if is_clear else 0

    def may_precede(self, step: str, other: str) -> bool:
        """Whether ways lead from a step to another one. All of them lead to the final step, for so do failures."""
        if other == self._final:
            return True
        seen, waiting = self._searches.setdefault(step, (set(), deque([step])))
        while other not in seen and waiting and self._left > 0:
            for arc in arcs_of(self.steps[waiting.popleft()]):
                self._left -= 1
                if arc.to.text in self.steps and arc.to.text not in seen:
                    seen.add(arc.to.text)
                    waiting.append(arc.to.text)
        return other in seen or self._left <= 0


def warn_of_early_results(use: Use, facts: Facts, names: VisibleNames, order: Order, report: Report) -> None:
    """NT306."""
    if use.step is None:
        return
    reader = use.step.name.text
    for path in facts.needs:
        name = _step_read(path, use, names)
        if name not in order.steps or order.may_precede(name, reader):
            continue
        if name == reader and use.place in _AFTER_THE_CALL:
            continue
        span = report.places.span(use.template, *find_path(use.template.source, path))
        message = f'step "{name}" never runs before this one, so it has no result yet'
        related = (Related(order.steps[name].name.span, "the step is here"),)
        report.warning(Code.EARLY_RESULT, span, message, "route from it to here, or read another step", related)


def _step_read(path: str, use: Use, names: VisibleNames) -> str:
    """The step whose result a path reads, "" when the name is bound otherwise too."""
    head, _, rest = path.partition(".")
    if head == "results":
        return rest.partition(".")[0]
    return "" if names.binds_otherwise(use, head) else head
