"""Conditions that read a step, task or loop element whose name is shadowed by one that every call binds.

The names of a call are the innermost scope. They hide, for example, the result of a step called ``page``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from noetl_compiler.checks.early_results import StepOrder
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related
from noetl_compiler.language.names import CALL_NAMES, OUTCOME
from noetl_compiler.report import Report
from noetl_compiler.syntax import Name, Playbook
from noetl_compiler.templating.analysis import TemplateAnalysis
from noetl_compiler.templating.template_uses import RenderedAt, TemplateUse

__all__ = ["HiddenNames"]

_CONDITIONS = frozenset({RenderedAt.OUTCOME, RenderedAt.AFTER, RenderedAt.ITEM_ARC, RenderedAt.ARC})


class _HiddenName(NamedTuple):
    """A name that is hidden where it is read. ``meaning`` describes what it would be otherwise, ``remedy`` how to read
    that.
    """

    name: Name
    meaning: str
    remedy: str


class HiddenNames:
    """The hidden names of a playbook."""

    def __init__(self, playbook: Playbook, order: StepOrder) -> None:
        self._order = order
        steps = playbook.steps
        names = {name for step in steps for name in (step.name.text, *(task.label.text for task in step.tasks))}
        names |= {step.loop.element.text for step in steps if step.loop is not None}
        self._names = names & OUTCOME.keys()

    def warn(self, use: TemplateUse, analysis: TemplateAnalysis, report: Report) -> None:
        """Report NT308, once per name, at the first condition that reads it."""
        if not self._names or not use.is_predicate or use.rendered_at not in _CONDITIONS:
            return
        for head in sorted(self._names & analysis.root_names):
            for hidden_name in self._hidden_names(use, head):
                if report.first_time(f"hidden name {hidden_name.name.span}"):
                    _report(hidden_name, use, report)

    def _hidden_names(self, use: TemplateUse, head: str) -> Iterator[_HiddenName]:
        """Yield what the condition would read if calls did not bind the name."""
        if use.step is None:
            return
        if use.rendered_at is RenderedAt.OUTCOME:
            yield from _hidden_in_step(use, head)
        step, reader = self._order.steps.get(head), use.step.name.text
        if step is None:
            return
        is_own_result = head == reader and use.rendered_at is not RenderedAt.OUTCOME and head not in CALL_NAMES
        if is_own_result or (head != reader and self._order.may_precede(head, reader)):
            yield _HiddenName(step.name, "the result of this step", f"results.{head}")


def _hidden_in_step(use: TemplateUse, head: str) -> Iterator[_HiddenName]:
    """Yield the loop element, and the tasks before the one whose rule contains the condition."""
    step, task = use.step, use.task
    if step is None:
        return
    if step.loop is not None and step.loop.element.text == head:
        yield _HiddenName(step.loop.element, "the element of this loop", f"iter.{head}")
    for earlier in step.tasks:
        if earlier is task:
            return
        if earlier.label.text == head:
            yield _HiddenName(earlier.label, "the result of this task", f"results.{head}")


def _report(hidden_name: _HiddenName, use: TemplateUse, report: Report) -> None:
    name = hidden_name.name.text
    message = f'"{name}" is {OUTCOME[name]} in conditions, not {hidden_name.meaning}'
    read_at = report.locator.path_span(use.template, name)
    related = (Related(read_at, "this condition reads it"),)
    report.warning(
        Code.HIDDEN_NAME, hidden_name.name.span, message, f"rename it, or read {hidden_name.remedy}", related
    )
