"""Makes one result of a task's pages (semantics.md: collect; graph.Collect)."""

from __future__ import annotations

from noetl_compiler.graph import Collect, Json, Task
from noetl_temporal.machine import json_merge
from noetl_temporal.machine.views import response_view

__all__ = ["collect_of", "collected"]


def collect_of(task: Task) -> Collect | None:
    """How a task's pages are collected: the ``collect`` of its first ``again`` rule that has one."""
    rules = task.policy.rules if task.policy else ()
    return next((rule.collect for rule in rules if rule.do == "again" and rule.collect), None)


def collected(how: Collect, so_far: Json, kind: str, result: Json) -> Json:
    """The running value with one more page. ``so_far`` is None before the first. KeyError when ``path`` is missing."""
    page = json_merge.plain(json_merge.read(response_view(kind, result), how.path))
    match how.strategy:
        case "replace":
            return page
        case "merge":
            return json_merge.merged(so_far or {}, page)
        case "collect":
            return [*(so_far or []), page]
        case "append":
            return [*(so_far or []), *(page if isinstance(page, list) else [page])]
