"""Count the calls of each task of a step in one iteration: pages, backward jumps, tasks that may be skipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from noetl_compiler.forecasting.static_scope import Count, try_render
from noetl_compiler.graph import Json, Rule, Step, Task
from noetl_compiler.language import defaults

__all__ = ["count_calls", "count_delays", "max_attempts", "repeats_itself"]

_EVERY_PAGE = "counted with all allowed pages (--pages)"
_COUNTED_ONCE = "calls unknown, counted as 1 (--pages)"


def count_calls(step: Step, pages: int | None, names: Mapping[str, Any]) -> list[Count]:
    """Return the calls of each task: its pages, times the repetitions by backward jumps."""
    counts = [_count_pages(task, pages, names) for task in step.tasks]
    for index, rule in _backward_jumps(step):
        for task_index in range(_target_index(step, rule), index + 1):
            counts[task_index] = _multiply_passes(counts[task_index], pages)
    return [
        count._replace(lower=0) if is_skippable else count
        for count, is_skippable in zip(counts, _skippable_tasks(step), strict=True)
    ]


def _count_pages(task: Task, pages: int | None, names: Mapping[str, Any]) -> Count:
    bounds = [_attempt_limit(rule, names, defaults.PAGES) for rule in _rules(task) if rule.do == "again"]
    if not bounds:
        return Count(1, 1)
    return Count(max(bounds), 1, _EVERY_PAGE) if pages is None else Count(pages, pages)


def _multiply_passes(count: Count, pages: int | None) -> Count:
    if pages is None:
        return count._replace(assumption=count.assumption or _COUNTED_ONCE)
    return Count(count.upper * pages, count.lower * pages, count.assumption)


def _skippable_tasks(step: Step) -> Iterator[bool]:
    """Yield for each task whether it has a guard or follows a rule that leaves the step or jumps forward."""
    labels = [task.label for task in step.tasks]
    is_skippable = False
    for index, task in enumerate(step.tasks):
        yield is_skippable or task.guard is not None
        forward_jumps = (rule.do == "jump" and rule.to in labels[index + 2 :] for rule in _rules(task))
        is_skippable = is_skippable or any(forward_jumps) or any(rule.do == "break" for rule in _rules(task))


def count_delays(step: Step, pages: int | None) -> int:
    """Return the number of delays between pages and before backward jumps, at most one for each."""
    page_rules = (rule for task in step.tasks for rule in _rules(task) if rule.do == "again")
    delayed_rules = [
        rule for rule in (*page_rules, *(rule for _, rule in _backward_jumps(step))) if rule.delay is not None
    ]
    return max(0, (pages or 1) - 1) * len(delayed_rules)


def repeats_itself(step: Step) -> bool:
    """Whether the step itself repeats tasks, so that ``--pages`` counts those repetitions."""
    return bool(list(_backward_jumps(step))) or any(rule.do == "again" for task in step.tasks for rule in _rules(task))


def max_attempts(task: Task, names: Mapping[str, Any]) -> int:
    """Return the maximum number of attempts that the retry rules of a task allow, including the first."""
    attempts = [_attempt_limit(rule, names, defaults.ATTEMPTS) for rule in _rules(task) if rule.do == "retry"]
    return min(defaults.MAX_ATTEMPTS, max([1, *attempts]))


def _backward_jumps(step: Step) -> Iterator[tuple[int, Rule]]:
    """Yield the rules that jump back, each with the index of its task."""
    labels = [task.label for task in step.tasks]
    for index, task in enumerate(step.tasks):
        yield from ((index, rule) for rule in _rules(task) if rule.do == "jump" and rule.to in labels[: index + 1])


def _target_index(step: Step, rule: Rule) -> int:
    return next(index for index, task in enumerate(step.tasks) if task.label == rule.to)


def _rules(task: Task) -> tuple[Rule, ...]:
    return task.policy.rules if task.policy else ()


def _attempt_limit(rule: Rule, names: Mapping[str, Any], default: int) -> int:
    attempts: Json = try_render(rule.attempts, names)
    return attempts if isinstance(attempts, int) and attempts > 0 else default
