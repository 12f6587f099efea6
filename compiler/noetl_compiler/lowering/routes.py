"""Ways on to routes: which boundary an arc can match, several targets of one choice, names bound in a target.

A choice with several targets (``when: ..., then: [a, b]``) has no arc of its own in the graph. It becomes
one arc to an injected step which routes to all of them.

``args`` of an arc are names bound in the step it leads to. The arc sets them under ``ctx._passed.<step>``,
apart from everything else, and the step's own args read them from there; a name that the arc taken did not
pass is null.
"""

from __future__ import annotations

import msgspec

from noetl_compiler import syntax
from noetl_compiler.graph import Arc, Assign, Route, Span, Step, Value
from noetl_compiler.graph.contents import pointer
from noetl_compiler.language.names import passed_expression, passed_target
from noetl_compiler.syntax_queries import routes_of
from noetl_compiler.templating.boundary import boundary
from noetl_compiler.value_merge import names_in

__all__ = ["RouteLowering", "passed_names", "routers_of"]


class RouteLowering(msgspec.Struct, frozen=True):
    """Lowers the routes of one level of steps.

    ``last`` is where a path without ``next`` ends. ``end`` is the end of the loop around, which is called ``last``
    inside.
    """

    last: str
    end: str = ""

    def route(self, step: syntax.Step) -> Route:
        """Return the route of a step; without ``next`` it leads to the last step of its level."""
        if step.next is None:
            return Route(arcs=(Arc(self.last, step.span),))
        return self._route(step, step.next)

    def item_route(self, step: syntax.Step) -> Route | None:
        """Return the route of each item of the step's loop."""
        return self._route(step, step.item_routes) if step.item_routes is not None else None

    def _route(self, step: syntax.Step, found: syntax.Next) -> Route:
        on_no_match, arcs = found.on_no_match or "end", tuple(arc for group in found.groups for arc in group)
        if found.mode == "inclusive" and len(arcs) > 1:
            return Route("inclusive", on_no_match, tuple(self._arc(arc) for arc in arcs))
        choices = tuple(
            self._arc(group[0]) if len(group) == 1 else self._to_router(_router_name(step, found, index), group)
            for index, group in enumerate(found.groups)
        )
        is_closed = any(not group[0].is_conditional for group in found.groups) or on_no_match != "end" or not self.end
        return Route("exclusive", on_no_match, choices if is_closed else (*choices, Arc(self.last, step.span)))

    def routers(self, step: syntax.Step) -> tuple[Step, ...]:
        """Return the steps to inject for choices with several targets."""
        return tuple(
            Step(
                name,
                group[0].span,
                injected=True,
                route=Route("inclusive", arcs=tuple(self._arc(_unconditional(arc)) for arc in group)),
            )
            for name, group in _choices(step)
        )

    def _to_router(self, name: str, group: tuple[syntax.Arc, ...]) -> Arc:
        """The arc to a router. It makes the assignments of the router's arcs, as it can read the step's outcome."""
        assigned = tuple(assign for arc in group for assign in (*arc.set, *_passing(arc)))
        first = group[0]
        on = first.on or boundary(first.when)
        return Arc(name, first.span, on, first.when, assigned)

    def _arc(self, arc: syntax.Arc) -> Arc:
        to = self.last if arc.to.text == self.end else arc.to.text
        assigned = (*arc.set, *_passing(arc))
        return Arc(to, arc.span, arc.on or boundary(arc.when), arc.when, assigned)


def routers_of(step: syntax.Step) -> tuple[str, ...]:
    """The names of the steps to inject for choices with several targets."""
    return tuple(name for name, _ in _choices(step))


def _choices(step: syntax.Step) -> tuple[tuple[str, tuple[syntax.Arc, ...]], ...]:
    return tuple(
        (_router_name(step, found, index), group)
        for found in (step.item_routes, step.next)
        if found is not None and found.mode == "exclusive"
        for index, group in enumerate(found.groups)
        if len(group) > 1
    )


def _passing(arc: syntax.Arc) -> tuple[Assign, ...]:
    if not arc.args.data:
        return ()
    return (Assign(passed_target(arc.to.text), arc.args, arc.span),)


def _router_name(step: syntax.Step, found: syntax.Next, index: int) -> str:
    """A choice of the step's own route, or of that of its items."""
    return f"{step.name.text}/{'item_then' if found is step.item_routes else 'then'}_{index + 1}"


def _unconditional(arc: syntax.Arc) -> syntax.Arc:
    return syntax.Arc(arc.to, arc.span)


def passed_names(playbook: syntax.Playbook) -> dict[str, Value]:
    """Return what the arcs to each step bind there, each name with the place where it is first passed."""
    places: dict[str, dict[str, Span]] = {}
    for step in playbook.steps:
        for arc in routes_of(step):
            for key in names_in(arc.args):
                places.setdefault(arc.to.text, {}).setdefault(key, arc.span)
    return {name: _read_back(name, keys) for name, keys in places.items()}


def _read_back(name: str, places: dict[str, Span]) -> Value:
    source = passed_expression(name)
    data = {key: f"{{{{ {source}[{key!r}] | default(none) }}}}" for key in places}
    return Value(data, {pointer("", key): span for key, span in places.items()})
