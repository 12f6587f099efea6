"""Combines the pages of a task into one result (semantics.md: collect; graph.Collect)."""

from __future__ import annotations

from typing import Any

from noetl_compiler.graph import Collect, Json, Task
from noetl_compiler.graph.contents import merge_json
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine import json_trees
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.state import TaskProgress
from noetl_temporal.machine.stored import loaded_result
from noetl_temporal.machine.views import response_view

__all__ = ["collect_of", "pages_summary", "truncation_warning", "with_page"]


def collect_of(task: Task) -> Collect | None:
    """Return how a task's pages are collected: the ``collect`` of its first ``again`` rule that has one."""
    if task.policy is None:
        return None
    return next((rule.collect for rule in task.policy.rules if rule.do == "again" and rule.collect), None)


def with_page(collect: Collect, collected: Json, task: Task, outcome: PlainOutcome) -> Json:
    """Return the collected value with one more page; ``collected`` is the value of the earlier pages, None before the
    first. Raises TemplateFailure if the page has nothing to collect.
    """
    try:
        return _add_page(collect, collected, task.kind, loaded_result(outcome))
    except (KeyError, IndexError, ValueError, TypeError) as error:
        message = f"nothing to collect at {collect.path!r} of the response"
        raise TemplateFailure(message, task.span) from error


def pages_summary(collect: Collect | None, progress: TaskProgress) -> Json:
    """Return the summary of all pages for ``task.done``: their number, how they were collected, and whether the limit
    was reached.
    """
    summary: dict[str, Json] = {"pages": progress.page, "strategy": collect.strategy if collect else None}
    return {**summary, "exhausted": True} if progress.is_truncated else summary


def truncation_warning(label: str, progress: TaskProgress) -> str:
    """Return the warning that a result lacks pages, because the rule allows no more."""
    return f"{label}: there are more pages than the {progress.page} that this rule allows; raise its attempts"


def _add_page(collect: Collect, collected: Json, kind: str, result: Json) -> Json:
    page = json_trees.plain(_value_at(collect.path, response_view(kind, result)))
    match collect.strategy:
        case "replace":
            return page
        case "merge":
            return merge_json(collected or {}, page)
        case "collect":
            return [*(collected or []), page]
        case "append":
            return [*(collected or []), *(page if isinstance(page, list) else [page])]


def _value_at(path: str, view: Any) -> Any:
    """Return the value at the path. A first ``data.`` is the body of the response itself, as in conditions, if it has
    no such key.
    """
    try:
        return json_trees.read(view, path)
    except (KeyError, IndexError, ValueError, TypeError):
        if not path.startswith("data."):
            raise
        return json_trees.read(view, path.removeprefix("data."))
