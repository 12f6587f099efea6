"""What a graph asks for that cannot be run here: told before anything has started (semantics.md 2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from noetl_compiler.graph import Graph, Span

__all__ = ["UnsupportedError", "unsupported"]

SINKS = frozenset({"postgres", "duckdb"})


class UnsupportedError(ValueError):
    """The playbook needs something that is not here. ``problems`` has a line for each, with its place."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def unsupported(graph: Graph, tools: Collection[str]) -> list[str]:
    """``file:line:col: error: ...`` for each tool without executor, each unknown sink, and each loop over
    a cursor or over steps."""
    return [f"{graph.source.file}:{span.line}:{span.col}: error: {message}" for span, message in _found(graph, tools)]


def _found(graph: Graph, tools: Collection[str]) -> Iterator[tuple[Span, str]]:
    for step in graph.steps.values():
        if step.loop is not None and step.loop.cursor is not None:
            yield step.loop.span, "cursor loops cannot run yet: loop over a collection"
        if step.loop is not None and step.loop.region:
            yield step.loop.span, "loops over several steps cannot run yet: give the loop a task of its own"
        for task in step.tasks:
            if task.kind not in tools:
                yield task.span, f"there is no tool {task.kind!r} here: the tools are {', '.join(sorted(tools))}"
            for sink in task.sinks:
                if sink.kind not in SINKS:
                    yield sink.span, f"there is no sink {sink.kind!r}: the sinks are {', '.join(sorted(SINKS))}"
