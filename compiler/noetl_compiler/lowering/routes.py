"""Lower routes: the outcomes that an arc can match, choices with several targets, names bound in a target.

A choice with several targets (``when: ..., then: [a, b]``) becomes one arc to an injected step, the router, which
routes to all of them.

The ``args`` of an arc are names bound in the step to which it leads. The arc sets them under ``ctx._passed.<step>``,
and the args of that step read them from there. A name that the followed arc does not pass is null.
"""

from __future__ import annotations

import msgspec

from noetl_compiler import syntax
from noetl_compiler.graph import Arc, Assign, Route, Span, Step, Value
from noetl_compiler.graph.contents import pointer
from noetl_compiler.language.names import passed_expression, passed_target
from noetl_compiler.syntax_queries import all_arcs_of
from noetl_compiler.templating.default_on_status import default_on_status
from noetl_compiler.value_merge import mapping_of

__all__ = ["RouteLowering", "passed_names", "routers_of"]


class RouteLowering(msgspec.Struct, frozen=True):
    """Lowers the routes of the steps of one level: those outside of loops, or those directly inside one loop.

    A step without ``next`` leads to ``last_step``. ``loop_end`` is the name that the playbook gives to the end of the
    enclosing loop; arcs to it lead to ``last_step`` instead.
    """

    last_step: str
    loop_end: str = ""

    def route(self, step: syntax.Step) -> Route:
        """Return the route of a step; without ``next`` it leads to the last step of its level."""
        if step.next is None:
            return Route(arcs=(Arc(self.last_step, step.span),))
        return self._lower_next(step, step.next)

    def item_route(self, step: syntax.Step) -> Route | None:
        """Return the route of each item of the step's loop."""
        return self._lower_next(step, step.item_routes) if step.item_routes is not None else None

    def _lower_next(self, step: syntax.Step, next_: syntax.Next) -> Route:
        on_no_match, arcs = next_.on_no_match or "end", tuple(arc for group in next_.groups for arc in group)
        if next_.mode == "inclusive" and len(arcs) > 1:
            return Route("inclusive", on_no_match, tuple(self._lower_arc(arc) for arc in arcs))
        choices = tuple(
            self._lower_arc(group[0]) if len(group) == 1 else self._to_router(_router_name(step, next_, index), group)
            for index, group in enumerate(next_.groups)
        )
        has_fallback = (
            any(not group[0].is_conditional for group in next_.groups) or on_no_match != "end" or not self.loop_end
        )
        return Route("exclusive", on_no_match, choices if has_fallback else (*choices, Arc(self.last_step, step.span)))

    def routers(self, step: syntax.Step) -> tuple[Step, ...]:
        """Return the steps to inject for choices with several targets."""
        return tuple(
            Step(
                name,
                group[0].span,
                injected=True,
                route=Route("inclusive", arcs=tuple(self._lower_arc(_unconditional(arc)) for arc in group)),
            )
            for name, group in _choices(step)
        )

    def _to_router(self, name: str, group: tuple[syntax.Arc, ...]) -> Arc:
        """Return the arc to a router. It makes the assignments of the router's arcs, as only it sees the outcome of the
        step.
        """
        assignments = tuple(assign for arc in group for assign in (*arc.set, *_passed_args(arc)))
        first = group[0]
        on_status = first.on_status or default_on_status(first.when)
        return Arc(name, first.span, on_status, first.when, assignments)

    def _lower_arc(self, arc: syntax.Arc) -> Arc:
        to = self.last_step if arc.target.text == self.loop_end else arc.target.text
        assignments = (*arc.set, *_passed_args(arc))
        return Arc(to, arc.span, arc.on_status or default_on_status(arc.when), arc.when, assignments)


def routers_of(step: syntax.Step) -> tuple[str, ...]:
    """Return the names of the steps to inject for choices with several targets."""
    return tuple(name for name, _ in _choices(step))


def _choices(step: syntax.Step) -> tuple[tuple[str, tuple[syntax.Arc, ...]], ...]:
    return tuple(
        (_router_name(step, next_, index), group)
        for next_ in (step.item_routes, step.next)
        if next_ is not None and next_.mode == "exclusive"
        for index, group in enumerate(next_.groups)
        if len(group) > 1
    )


def _passed_args(arc: syntax.Arc) -> tuple[Assign, ...]:
    if not arc.args.data:
        return ()
    return (Assign(passed_target(arc.target.text), arc.args, arc.span),)


def _router_name(step: syntax.Step, next_: syntax.Next, index: int) -> str:
    """Name the router of a choice of the step's own route, or of the route of its items."""
    return f"{step.name.text}/{'item_then' if next_ is step.item_routes else 'then'}_{index + 1}"


def _unconditional(arc: syntax.Arc) -> syntax.Arc:
    return syntax.Arc(arc.target, arc.span)


def passed_names(playbook: syntax.Playbook) -> dict[str, Value]:
    """Return step -> the values of the names that arcs to it pass, each with the span where it is first passed."""
    passed_spans: dict[str, dict[str, Span]] = {}
    for step in playbook.steps:
        for arc in all_arcs_of(step):
            for key in mapping_of(arc.args):
                passed_spans.setdefault(arc.target.text, {}).setdefault(key, arc.span)
    return {name: _values_of_passed(name, keys) for name, keys in passed_spans.items()}


def _values_of_passed(name: str, passed_spans: dict[str, Span]) -> Value:
    source = passed_expression(name)
    data = {key: f"{{{{ {source}[{key!r}] | default(none) }}}}" for key in passed_spans}
    return Value(data, {pointer("", key): span for key, span in passed_spans.items()})
