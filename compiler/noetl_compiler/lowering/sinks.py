"""A sink for the results of a loop as a whole: an injected step behind the loop that does nothing but store them.

In it ``results`` are all iterations' results, ``count`` is how many, and ``result``, ``data`` and ``this`` mean the
same as beside any task.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from noetl_compiler.graph import Arc, Route, Sink, Span, Step, Task, Value

__all__ = ["saving_behind", "saving_name"]


def saving_name(loop: str) -> str:
    """Return the step that stores a loop's results."""
    return f"{loop}/save"


def saving_behind(loop: Step, sinks: tuple[Sink, ...]) -> Iterator[Step]:
    """Yield the loop, leading to the step that stores its results, which has the routes of the loop."""
    name, span = saving_name(loop.name), sinks[0].span
    yield replace(loop, route=Route(arcs=(Arc(name, span),)))
    task = Task(name, "noop", "noop", span, config=_templates({"result": "{{ results }}"}, span), sinks=sinks)
    results = f"results[{loop.name!r}]"
    args = _templates({"results": f"{{{{ {results} }}}}", "count": f"{{{{ {results} | length }}}}"}, span)
    yield Step(name, span, injected=True, args=args, tasks=(task,), route=loop.route)


def _templates(sources: dict[str, str], span: Span) -> Value:
    return Value(dict(sources), {f"/{name}": span for name in sources})
