"""Finds what a graph uses that cannot run here, before anything starts (semantics.md 2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from noetl_activities.tool import BUILT_IN, tool_names
from noetl_compiler import templates
from noetl_compiler.graph import Graph, Span, Step, Task
from noetl_compiler.graph.contents import templates_in
from noetl_compiler.language.sinks import STORES
from noetl_compiler.language.tools import WAITS
from noetl_compiler.language.unsupported import CIRCUIT, CURSOR, KEYCHAIN, REGION, REMOTE_CODE
from noetl_compiler.value_merge import names_in

__all__ = ["UnsupportedError", "tools_for", "unsupported"]


class UnsupportedError(ValueError):
    """The playbook uses something that is not supported. ``problems`` has a line for each use, with its place."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def tools_for(graph: Graph) -> Collection[str]:
    """The kinds of tools that can be called here; others than the built-in ones are looked for only where the graph
    asks for one. Raises ValueError as load_tools does."""
    kinds = {task.kind for step in graph.steps.values() for task in step.tasks} - WAITS
    return BUILT_IN if kinds <= BUILT_IN else tool_names()


def unsupported(graph: Graph, tools: Collection[str], *, has_store: bool = True) -> list[str]:
    """``file:line:col: error: ...`` for each tool without executor, each unknown sink, each loop over a cursor or over
    steps, each secret of the keychain, each circuit breaker, each frame that cannot run, and code that lies elsewhere,
    in the order of the text. ``has_store`` when large values can be kept in Postgres."""
    found = sorted({*_in_steps(graph, tools), *_secrets(graph), *_frames(graph, has_store)})
    return [f"{graph.source.file}:{span.line}:{span.col}: error: {message}" for span, message in found]


def _in_steps(graph: Graph, tools: Collection[str]) -> Iterator[tuple[Span, str]]:
    for step in graph.steps.values():
        yield from _in_loop(step)
        for task in step.tasks:
            yield from _in_task(task, tools)


def _in_loop(step: Step) -> Iterator[tuple[Span, str]]:
    if step.loop is not None and step.loop.cursor is not None:
        yield step.loop.span, str(CURSOR)
    if step.loop is not None and step.loop.region:
        yield step.loop.span, str(REGION)


def _frames(graph: Graph, has_store: bool) -> Iterator[tuple[Span, str]]:
    """A frame needs a store for its segments; after a crash it makes the calls of its last seconds again."""
    for step in graph.steps.values():
        frame = step.loop.frame if step.loop is not None else None
        if frame is not None and not has_store:
            yield frame.span, "a frame stores its progress in Postgres: set NOETL_POSTGRES, or remove the frame"
        for task in step.tasks if frame is not None else ():
            if not task.idempotent:
                message = "a call that must not be repeated (idempotent: false) cannot run in a frame: remove the frame"
                yield task.span, message


def _in_task(task: Task, tools: Collection[str]) -> Iterator[tuple[Span, str]]:
    if task.kind not in tools and task.kind not in WAITS:
        yield task.span, f"there is no tool {task.kind!r} here: the tools are {', '.join(sorted(tools))}"
    if task.kind in tools and isinstance(names_in(task.config).get("script"), dict):
        yield task.span, str(REMOTE_CODE)
    if task.policy is not None and task.policy.circuit is not None:
        yield task.policy.circuit.span, str(CIRCUIT)
    for sink in task.sinks:
        if sink.kind not in STORES:
            yield sink.span, f"there is no sink {sink.kind!r}: the sinks are {', '.join(sorted(STORES))}"


def _secrets(graph: Graph) -> Iterator[tuple[Span, str]]:
    """Where templates name secrets of the keychain, as ``keychain.<name>`` or by the name alone."""
    names = {entry.name for entry in graph.keychain} - graph.steps.keys()
    for template in templates_in(graph.steps):
        heads = {path.partition(".")[0] for path in templates.paths(template.source)}
        for name in sorted(heads & {"keychain", *names}):
            message = f'{KEYCHAIN.problem}, and this template reads "{name}"'
            yield template.span, f"{message}: {KEYCHAIN.remedy}"
