"""Finds the parts of graphs that cannot run in this deployment, before a run is submitted (semantics.md 2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
from msgspec.structs import replace

from noetl_activities.tool import BUILT_IN, tool_kinds
from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.graph import Graph, Span, Step, Task
from noetl_compiler.graph.pinned import PinnedCalls, call_name, calling_tasks, literal_call
from noetl_compiler.language import sinks
from noetl_compiler.language.scripts import code_in
from noetl_compiler.language.tools import IN_WORKFLOW, KINDS
from noetl_compiler.language.unsupported import (
    RESULT_REFERENCE,
    fetches_result,
    unsupported_cursor,
)
from noetl_compiler.value_merge import mapping_of
from noetl_temporal.machine.loops.frames import NO_STORE

__all__ = ["UnsupportedError", "available_tools", "check_calls", "frame_warnings", "unsupported_uses"]


_UNFETCHED = "the code is in another file and was not fetched: submit the playbook as a file"

INLINE_CALLS_BYTES = 200_000
"""The maximum size of the playbooks that a run may call if there is no payload store: each call carries all of them."""


class UnsupportedError(ValueError):
    """The playbook uses something that is not supported. ``problems`` has a line for each use, with its location."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def available_tools(*graphs: Graph) -> Collection[str]:
    """Return the kinds of tools that can be called here. Installed packages are searched for tools only if a graph uses
    one that is not built in. Raises ValueError: see load_tools.
    """
    kinds = {task.kind for graph in graphs for step in graph.steps.values() for task in step.tasks} - IN_WORKFLOW
    return BUILT_IN if kinds <= BUILT_IN else tool_kinds()


def unsupported_uses(graph: Graph, tools: Collection[str]) -> list[str]:
    """Return ``file:line:col: error: ...`` for each kind of tool that is not in ``tools``, each unknown sink, each loop
    over a cursor of a database other than Postgres, and code in another file that was not fetched, in the order of the
    playbook.
    """
    problems = sorted({*_step_problems(graph, tools)})
    return [f"{graph.source.file}:{span.line}:{span.col}: error: {message}" for span, message in problems]


def frame_warnings(graph: Graph, calls: PinnedCalls) -> list[str]:
    """Return ``file:line:col: warning: ...`` for each frame in the playbook of a run that is submitted without
    Postgres, and in the playbooks that its literal calls reach.
    """
    frames = (
        (playbook.source.file, step.loop.frame.span)
        for playbook in calls.closure(graph)
        for step in playbook.steps.values()
        if step.loop is not None and step.loop.frame is not None
    )
    return [f"{file}:{span.line}:{span.col}: warning: {NO_STORE}" for file, span in frames]


def check_calls(
    graph: Graph, calls: PinnedCalls, tools: Collection[str], *, has_store: bool = True
) -> tuple[PinnedCalls, list[str]]:
    """Return the playbooks that a run may call, and the errors because of which it is refused: those of the playbook
    and of the playbooks that its literal calls reach. The errors of a playbook that only templated calls may reach are
    stored in the returned ``calls``, and fail such a call. ``has_store`` if large values can be stored in Postgres.
    """
    closure = calls.closure(graph)
    errors = [
        problem
        for playbook in closure
        for problem in (*unsupported_uses(playbook, tools), *_missing_playbooks(playbook, calls))
    ]
    if not has_store and (size := len(msgspec.json.encode(calls))) > INLINE_CALLS_BYTES:
        message = f"the playbooks that it may call have {size:,} bytes, over {INLINE_CALLS_BYTES:,}"
        errors.append(f"{graph.source.file}:1:1: error: {message}: set NOETL_POSTGRES, to store them there")
    digests = {playbook.digest for playbook in closure}
    others = {other.digest: unsupported_uses(other, tools) for other in calls.graphs if other.digest not in digests}
    first_problems = {digest: problems[0] for digest, problems in others.items() if problems}
    return (replace(calls, problems=first_problems) if first_problems else calls), errors


def _missing_playbooks(graph: Graph, calls: PinnedCalls) -> Iterator[str]:
    """Yield an error for each literal call of a missing playbook."""
    for task in calling_tasks(graph):
        literal = literal_call(task)
        if literal is not None and calls.find(graph.digest, *literal) is None:
            hint = did_you_mean(literal[0], calls.paths)
            location = f"{graph.source.file}:{task.span.line}:{task.span.col}"
            yield f"{location}: error: there is no playbook {call_name(*literal)!r}{f': {hint}' if hint else ''}"


def _step_problems(graph: Graph, tools: Collection[str]) -> Iterator[tuple[Span, str]]:
    for step in graph.steps.values():
        yield from _loop_problems(step)
        for task in step.tasks:
            yield from _task_problems(task, tools)


def _loop_problems(step: Step) -> Iterator[tuple[Span, str]]:
    if step.loop is None or step.loop.cursor is None:
        return
    unsupported = unsupported_cursor(step.loop.cursor.kind)
    if unsupported is not None:
        yield step.loop.span, str(unsupported)


def _unknown_tool_message(kind: str, tools: Collection[str]) -> str:
    declared_kind = KINDS.get(kind)
    if declared_kind is not None and declared_kind.unsupported:
        return f'tool kind "{kind}" is not supported: {declared_kind.unsupported}'
    return f"there is no tool {kind!r} here: the tools are {', '.join(sorted(tools))}"


def _task_problems(task: Task, tools: Collection[str]) -> Iterator[tuple[Span, str]]:
    if task.kind not in tools and task.kind not in IN_WORKFLOW:
        yield task.span, _unknown_tool_message(task.kind, tools)
    script = mapping_of(task.config).get("script")
    if task.kind in tools and isinstance(script, dict) and code_in(script) is None:
        yield task.span, _UNFETCHED
    if fetches_result(task.kind, mapping_of(task.config), mapping_of(task.input)):
        yield task.span, str(RESULT_REFERENCE)
    for sink in task.sinks:
        if sink.kind not in sinks.KINDS:
            yield sink.span, f"there is no sink {sink.kind!r}: the sinks are {', '.join(sorted(sinks.KINDS))}"
