"""Chooses the task queue of each tool (dev/decisions/0021).

A graph names queues by the kinds of tools. The client resolves them when it submits a run and stores them in its input,
so a change of the configuration affects only new runs. There are two kinds:

* the tool's *own* queue, ``noetl-<kind>``: the number, limits and machines of its workers can be chosen separately;
* the *shared* queue, which is also that of the workflows: the worker that schedules a call starts it immediately (eager
  start), without a round trip through the queue. A worker of this queue must have all tools, so only ``noetl worker``
  without ``--tools`` polls it.

NOETL_TOOL_QUEUES lists the tools with their own queue: ``all`` (default), ``none``, or their names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from noetl_compiler.graph import Graph
from noetl_compiler.language.tools import IN_WORKFLOW
from noetl_temporal.naming import WORKFLOW_QUEUE

__all__ = ["TOOL_QUEUES_VARIABLE", "resolved_queues"]

TOOL_QUEUES_VARIABLE = "NOETL_TOOL_QUEUES"


def resolved_queues(graphs: Iterable[Graph], overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the task queue of each symbolic queue in the graphs, except those of tools with their own queue.
    ``overrides`` take precedence.
    """
    calls = (task for graph in graphs for step in graph.steps.values() for task in step.all_tasks)
    symbolic = {task.queue for task in calls if task.kind not in IN_WORKFLOW}
    return {**{kind: WORKFLOW_QUEUE for kind in sorted(symbolic) if not _has_own_queue(kind)}, **overrides}


def _has_own_queue(kind: str) -> bool:
    setting = os.environ.get(TOOL_QUEUES_VARIABLE, "all").strip()
    return setting == "all" or kind in {name.strip() for name in setting.split(",")}
