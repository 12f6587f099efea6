"""Lower a sink for the results of a whole loop: an injected step after the loop that only stores them.

The sink sees ``results``, the results of all iterations, and ``count``, their number, in addition to the names of any
sink.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from noetl_compiler.graph import Arc, Route, Sink, Step, Task
from noetl_compiler.lowering.expressions import template_mapping

__all__ = ["saving_step_name", "with_saving_step"]


def saving_step_name(loop: str) -> str:
    """Return the name of the step that stores the results of a loop."""
    return f"{loop}/save"


def with_saving_step(loop: Step, sinks: tuple[Sink, ...]) -> Iterator[Step]:
    """Yield the loop, routed to a step that stores its results, and that step, which has the routes of the loop."""
    name, span = saving_step_name(loop.name), sinks[0].span
    yield replace(loop, route=Route(arcs=(Arc(name, span),)))
    task = Task(name, "noop", "noop", span, config=template_mapping({"result": "results"}, span), sinks=sinks)
    results = f"results[{loop.name!r}]"
    args = template_mapping({"results": results, "count": f"{results} | length"}, span)
    yield Step(name, span, injected=True, args=args, tasks=(task,), route=loop.route)
