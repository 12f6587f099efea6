"""Combines the pages of a task into one result (semantics.md: collect; graph.Collect)."""

from __future__ import annotations

from typing import Any

from noetl_compiler.graph import Collect, Json, Task
from noetl_compiler.graph.contents import merge_json
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine import json_trees
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.state import TaskProgress
from noetl_temporal.machine.stored import whole_result
from noetl_temporal.machine.views import response_view

__all__ = ["collect_of", "pages_summary", "truncation_warning", "with_page"]


def collect_of(task: Task) -> Collect | None:
    """Return how a task's pages are collected: the ``collect`` of its first ``again`` rule that has one."""
    if task.policy is None:
        return None
    return next((rule.collect for rule in task.policy.rules if rule.do == "again" and rule.collect), None)


def with_page(collect: Collect, so_far: Json, task: Task, outcome: PlainOutcome) -> Json:
    """Return the running value with one more page; ``so_far`` is None before the first. Raises TemplateFailure if the
    page has nothing to collect.
    """
    try:
        return _add_page(collect, so_far, task.kind, whole_result(outcome))
    except (KeyError, IndexError, ValueError, TypeError) as error:
        message = f"nothing to collect at {collect.path!r} of the response"
        raise TemplateFailure(message, task.span) from error


def pages_summary(collect: Collect | None, progress: TaskProgress) -> Json:
    """Return what ``task.done`` reports about all pages: how many, how they were collected, and whether the limit was
    reached.
    """
    summary: dict[str, Json] = {"pages": progress.page, "strategy": collect.strategy if collect else None}
    return {**summary, "exhausted": True} if progress.is_truncated else summary


def truncation_warning(label: str, progress: TaskProgress) -> str:
    """Return the warning if pages are missing from a result."""
    return f"{label}: there are more pages than the {progress.page} that this rule allows; raise its attempts"


def _add_page(collect: Collect, so_far: Json, kind: str, result: Json) -> Json:
    page = json_trees.plain(_value_at(collect.path, response_view(kind, result)))
    match collect.strategy:
        case "replace":
            return page
        case "merge":
            return merge_json(so_far or {}, page)
        case "collect":
            return [*(so_far or []), page]
        case "append":
            return [*(so_far or []), *(page if isinstance(page, list) else [page])]


def _value_at(path: str, view: Any) -> Any:
    """Return the value at the path. Conditions may name the body of a response ``data``, as the result of the call
    does, and so may the path.
    """
    try:
        return json_trees.read(view, path)
    except (KeyError, IndexError, ValueError, TypeError):
        if not path.startswith("data."):
            raise
        return json_trees.read(view, path.removeprefix("data."))
