"""How often each task of a step is called per iteration: pages, backward jumps, tasks that may be skipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from noetl_compiler.forecasting.static_scope import Count, rendered
from noetl_compiler.graph import Json, Rule, Step, Task
from noetl_compiler.language import defaults

__all__ = ["attempts_of", "calls_of", "delays_of", "repeats_itself"]

_EVERY_PAGE = "counted with all allowed pages (--pages)"
_COUNTED_ONCE = "calls unknown, counted as 1 (--pages)"


def calls_of(step: Step, pages: int | None, names: Mapping[str, Any]) -> list[Count]:
    """Return the calls of each task: its pages times the passes of the backward jumps around it."""
    counts = [_paged(task, pages, names) for task in step.tasks]
    for index, rule in _jumps(step):
        for inside in range(_place(step, rule), index + 1):
            counts[inside] = _times_passes(counts[inside], pages)
    return [count._replace(least=0) if may else count for count, may in zip(counts, _may_be_skipped(step), strict=True)]


def _paged(task: Task, pages: int | None, names: Mapping[str, Any]) -> Count:
    bounds = [_bound(rule, names, defaults.PAGES) for rule in _rules(task) if rule.do == "again"]
    if not bounds:
        return Count(1, 1)
    return Count(max(bounds), 1, _EVERY_PAGE) if pages is None else Count(pages, pages)


def _times_passes(count: Count, pages: int | None) -> Count:
    if pages is None:
        return count._replace(assumed=count.assumed or _COUNTED_ONCE)
    return Count(count.most * pages, count.least * pages, count.assumed)


def _may_be_skipped(step: Step) -> Iterator[bool]:
    """For each task, whether it has a guard or follows a rule that leaves the step or jumps forward."""
    labels = [task.label for task in step.tasks]
    skipped = False
    for index, task in enumerate(step.tasks):
        yield skipped or task.guard is not None
        ahead = (rule.do == "jump" and rule.to in labels[index + 2 :] for rule in _rules(task))
        skipped = skipped or any(ahead) or any(rule.do == "break" for rule in _rules(task))


def delays_of(step: Step, pages: int | None) -> int:
    """Return the number of delays between pages and before backward jumps, at most one for each."""
    again = (rule for task in step.tasks for rule in _rules(task) if rule.do == "again")
    waiting = [rule for rule in (*again, *(rule for _, rule in _jumps(step))) if rule.delay is not None]
    return max(0, (pages or 1) - 1) * len(waiting)


def repeats_itself(step: Step) -> bool:
    """Whether the step itself repeats tasks, so that ``--pages`` counts those repetitions."""
    return bool(list(_jumps(step))) or any(rule.do == "again" for task in step.tasks for rule in _rules(task))


def attempts_of(task: Task, names: Mapping[str, Any]) -> int:
    """Return the maximum number of attempts that the retry rules of a task allow, including the first."""
    attempts = [_bound(rule, names, defaults.ATTEMPTS) for rule in _rules(task) if rule.do == "retry"]
    return min(defaults.MAX_ATTEMPTS, max([1, *attempts]))


def _jumps(step: Step) -> Iterator[tuple[int, Rule]]:
    """Yield the rules that jump back, each with the index of its task."""
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
