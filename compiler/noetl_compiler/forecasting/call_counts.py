"""How often each task of a step is called in one iteration: pages, jumps back, tasks that may be left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from noetl_compiler.forecasting.static_scope import Count, rendered
from noetl_compiler.graph import Json, Rule, Step, Task
from noetl_compiler.language import defaults

__all__ = ["attempts_of", "calls_of", "delays_of", "repeats_itself"]

_EVERY_PAGE = "all pages allowed are counted (--pages)"
_PASSED_ONCE = "passes unknown, counted as 1 (--pages)"


def calls_of(step: Step, pages: int | None, names: Mapping[str, Any]) -> list[Count]:
    """The calls of each task: its pages, times the passes of the jumps that lead back over it."""
    counts = [_paged(task, pages, names) for task in step.tasks]
    for index, rule in _jumps(step):
        for inside in range(_place(step, rule), index + 1):
            counts[inside] = _passed(counts[inside], pages)
    return [_left_out(count) if may else count for count, may in zip(counts, _may_be_left_out(step), strict=True)]


def _paged(task: Task, pages: int | None, names: Mapping[str, Any]) -> Count:
    bounds = [_bound(rule, names, defaults.PAGES) for rule in _rules(task) if rule.do == "again"]
    if not bounds:
        return Count(1, 1)
    return Count(max(bounds), 1, _EVERY_PAGE) if pages is None else Count(pages, pages)


def _passed(count: Count, pages: int | None) -> Count:
    if pages is None:
        return count._replace(assumed=count.assumed or _PASSED_ONCE)
    return Count(count.most * pages, count.least * pages, count.assumed)


def _left_out(count: Count) -> Count:
    return count._replace(least=0)


def _may_be_left_out(step: Step) -> Iterator[bool]:
    """A task with a guard, and those behind a rule that leaves the step or jumps ahead."""
    labels = [task.label for task in step.tasks]
    skipped = False
    for index, task in enumerate(step.tasks):
        yield skipped or task.guard is not None
        ahead = (rule.do == "jump" and rule.to in labels[index + 2 :] for rule in _rules(task))
        skipped = skipped or any(ahead) or any(rule.do == "break" for rule in _rules(task))


def delays_of(step: Step, pages: int | None) -> int:
    """The waits between pages and before jumps back, at most one for each."""
    again = (rule for task in step.tasks for rule in _rules(task) if rule.do == "again")
    waiting = [rule for rule in (*again, *(rule for _, rule in _jumps(step))) if rule.delay is not None]
    return max(0, (pages or 1) - 1) * len(waiting)


def repeats_itself(step: Step) -> bool:
    """Whether pages of this step are those of its tasks."""
    return bool(list(_jumps(step))) or any(rule.do == "again" for task in step.tasks for rule in _rules(task))


def attempts_of(task: Task, names: Mapping[str, Any]) -> int:
    """The most calls that a rule's retry allows, the first included."""
    asked = [_bound(rule, names, defaults.ATTEMPTS) for rule in _rules(task) if rule.do == "retry"]
    return min(defaults.MOST_ATTEMPTS, max([1, *asked]))


def _jumps(step: Step) -> Iterator[tuple[int, Rule]]:
    """The rules that jump back, each with the place of its task."""
    labels = [task.label for task in step.tasks]
    for index, task in enumerate(step.tasks):
        yield from ((index, rule) for rule in _rules(task) if rule.do == "jump" and rule.to in labels[: index + 1])


def _place(step: Step, rule: Rule) -> int:
    return next(index for index, task in enumerate(step.tasks) if task.label == rule.to)


def _rules(task: Task) -> tuple[Rule, ...]:
    return task.policy.rules if task.policy else ()


def _bound(rule: Rule, names: Mapping[str, Any], otherwise: int) -> int:
    found: Json = rendered(rule.attempts, names)
    return found if isinstance(found, int) and found > 0 else otherwise
