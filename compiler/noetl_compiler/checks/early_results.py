"""Results of steps that cannot have run yet.

The search follows the routes from the step whose result is read until it finds the reader. It visits each step once
and stops early, so reading the previous step is cheap. It follows a limited number of routes per playbook, and reports
nothing beyond that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related
from noetl_compiler.item_routes import steps_on_item_routes
from noetl_compiler.regions import regions_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import Arc, Playbook, Step
from noetl_compiler.syntax_queries import all_arcs_of, arcs_of, entry_name_of, final_name_of
from noetl_compiler.templating.analysis import TemplateAnalysis
from noetl_compiler.templating.template_uses import RenderedAt, TemplateUse
from noetl_compiler.visible_names import VisibleNames

__all__ = ["StepOrder", "warn_of_early_results"]

_MAX_FOLLOWED_ARCS = 1_000_000
_AFTER_CALL = (RenderedAt.OUTCOME, RenderedAt.AFTER, RenderedAt.ITEM_ARC, RenderedAt.ARC)


class StepOrder:
    """Decides which step can run before which."""

    def __init__(self, playbook: Playbook) -> None:
        self.steps: dict[str, Step] = {step.name.text: step for step in playbook.steps}
        self._final = final_name_of(playbook)
        self._loops_by_route_step = _loops_by_route_step(playbook, self._final)
        self._searches: dict[str, tuple[set[str], deque[str]]] = {}
        is_unique = len(self.steps) == len(playbook.steps)  # another check reports duplicate names
        self._remaining_arcs = _MAX_FOLLOWED_ARCS if is_unique else 0

    def may_precede(self, step: str, other: str) -> bool:
        """Whether routes lead from ``step`` to ``other``. Every step precedes the final one, to which failures lead."""
        if other == self._final:
            return True
        visited_steps, queue = self._searches.setdefault(step, (set(), deque([step])))
        while other not in visited_steps and queue and self._remaining_arcs > 0:
            for arc in self._arcs_from(queue.popleft()):
                self._remaining_arcs -= 1
                if arc.target.text in self.steps and arc.target.text not in visited_steps:
                    visited_steps.add(arc.target.text)
                    queue.append(arc.target.text)
        return other in visited_steps or self._remaining_arcs <= 0

    def _arcs_from(self, step: str) -> Iterator[Arc]:
        """Yield the arcs from a step, and those from the loops whose item routes lead through it."""
        yield from all_arcs_of(self.steps[step])
        for loop in self._loops_by_route_step.get(step, ()):
            yield from arcs_of(loop)


def _loops_by_route_step(playbook: Playbook, final: str) -> dict[str, list[Step]]:
    """Return step -> the loops whose item routes lead through it."""
    loops_by_step: dict[str, list[Step]] = {}
    loops = {step.name.text: step for step in playbook.steps if step.item_routes is not None}
    if loops:
        regions = regions_of(playbook, entry_name_of(playbook), final)
        for loop, names in steps_on_item_routes(playbook, regions, final).items():
            for name in names:
                loops_by_step.setdefault(name, []).append(loops[loop])
    return loops_by_step


def warn_of_early_results(
    use: TemplateUse, analysis: TemplateAnalysis, names: VisibleNames, order: StepOrder, report: Report
) -> None:
    """Report NT306."""
    if use.step is None:
        return
    reader = use.step.name.text
    own_paths = _paths_to_own_result(use, analysis, names, order)
    for path in own_paths:
        _warn_of_own_result(path, use, report)
    for path in (path for path in analysis.required_paths if path not in own_paths):
        name = _step_read_by(path, use, names, order)
        if name not in order.steps or order.may_precede(name, reader):
            continue
        if name == reader and use.rendered_at in _AFTER_CALL:
            continue
        span = report.locator.path_span(use.template, path)
        message = f'step "{name}" never runs before this one, so it has no result yet'
        related = (Related(order.steps[name].name.span, "the step is here"),)
        report.warning(Code.EARLY_RESULT, span, message, "route from it to here, or read another step", related)


def _paths_to_own_result(
    use: TemplateUse, analysis: TemplateAnalysis, names: VisibleNames, order: StepOrder
) -> tuple[str, ...]:
    """Return the paths by which a rule's condition reads the result of its own task, which is bound only after the
    rules. A test such as ``is defined`` is allowed: it distinguishes the first call from later ones.
    """
    rules = use.task.policy.rules if use.task is not None and use.task.policy is not None else ()
    if not any(rule.body.when is use.template for rule in rules):
        return ()
    paths = (
        *analysis.required_paths,
        *(path for path in analysis.tested_paths if "." in path.removeprefix("results.")),
    )
    return tuple(path for path in dict.fromkeys(paths) if _reads_own_result(path, use, names, order))


def _reads_own_result(path: str, use: TemplateUse, names: VisibleNames, order: StepOrder) -> bool:
    """Whether a path starts with the name of the task itself, or of its step if that runs only once."""
    if use.step is None or use.task is None:
        return False
    step, label = use.step.name.text, use.task.label.text
    if step in (label, _step_read_by(path, use, names, order)) and order.may_precede(step, step):
        return False
    reads_step = step in order.steps and _step_read_by(path, use, names, order) == step
    return reads_step or (path.partition(".")[0] == label and names.can_only_be_task(use, label))


def _warn_of_own_result(path: str, use: TemplateUse, report: Report) -> None:
    head, dot, tail = path.removeprefix("results.").partition(".")
    span = report.locator.path_span(use.template, path)
    message = f'"{head}" has no result yet in its own rules'
    report.warning(Code.EARLY_RESULT, span, message, f"read the outcome of the call: output.data{dot}{tail}")


def _step_read_by(path: str, use: TemplateUse, names: VisibleNames, order: StepOrder) -> str:
    """Return the step whose result a path reads; "" if there is none or the name has another meaning."""
    head, _, tail = path.partition(".")
    if head == "results":
        return tail.partition(".")[0]
    return "" if head not in order.steps or names.may_shadow_result(use, head) else head
