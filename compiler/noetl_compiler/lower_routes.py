"""Ways on to routes: which boundary an arc can match, several targets of one choice, names bound in a target.

A choice with several targets (``when: ..., then: [a, b]``) has no arc of its own in the graph. It becomes
one arc to an injected step which routes to all of them.

``args`` of an arc are names bound in the step it leads to. The arc sets them under ``ctx.passed.<step>``,
apart from everything else, and the step's own args read them from there; a name that the arc taken did not
pass is null.
"""

from __future__ import annotations

import re
from typing import Literal

from noetl_compiler import syntax
from noetl_compiler.graph import Arc, Assign, Route, Span, Step, Template, Value
from noetl_compiler.nodes import pointer
from noetl_compiler.overlay import names_in
from noetl_compiler.templates import paths

__all__ = ["bound_args", "lower_routes", "routers"]

_OUTCOME_NAMES = frozenset({"event", "error", "output", "outcome", "_outcome"})


def lower_routes(step: syntax.Step, final: str) -> Route:
    """The route of a step; one that names no way on goes to the final step."""
    found = step.next
    if found is None:
        return Route(arcs=(Arc(final, step.span),))
    on_no_match, arcs = found.on_no_match or "end", tuple(arc for group in found.groups for arc in group)
    if found.mode == "inclusive" and len(arcs) > 1:
        return Route("inclusive", on_no_match, tuple(_lower_arc(arc) for arc in arcs))
    choices = tuple(
        _lower_arc(group[0]) if len(group) == 1 else _to_router(step, index, group)
        for index, group in enumerate(found.groups)
    )
    return Route("exclusive", on_no_match, choices)


def routers(step: syntax.Step) -> tuple[Step, ...]:
    """The steps to inject for choices with several targets."""
    if step.next is None or step.next.mode == "inclusive":
        return ()
    return tuple(
        Step(
            _router_name(step, index),
            group[0].span,
            injected=True,
            route=Route("inclusive", arcs=tuple(_lower_arc(_unconditional(arc)) for arc in group)),
        )
        for index, group in enumerate(step.next.groups)
        if len(group) > 1
    )


def _router_name(step: syntax.Step, index: int) -> str:
    return f"{step.name.text}/then_{index + 1}"


def _unconditional(arc: syntax.Arc) -> syntax.Arc:
    return syntax.Arc(arc.to, arc.span, None, arc.set, Value({}))


def _to_router(step: syntax.Step, index: int, group: tuple[syntax.Arc, ...]) -> Arc:
    """The choice itself: what its targets are passed is set here, where the step's outcome is in scope."""
    passed = tuple(assign for arc in group for assign in _passing(arc))
    when = group[0].when
    return Arc(_router_name(step, index), group[0].span, _boundary(when), when, passed)


def _lower_arc(arc: syntax.Arc) -> Arc:
    return Arc(arc.to.text, arc.span, _boundary(arc.when), arc.when, (*arc.set, *_passing(arc)))


def _boundary(when: Template | None) -> Literal["any", "ok"]:
    """An arc can follow a failure only if it asks about the outcome (dev/decisions/0007)."""
    if when is None:
        return "ok"
    names = {path.partition(".")[0] for path in paths(when.source)}
    return "any" if names & _OUTCOME_NAMES else "ok"


def _passing(arc: syntax.Arc) -> tuple[Assign, ...]:
    if not arc.args.data:
        return ()
    return (Assign(f"ctx.passed.{_slug(arc.to.text)}", arc.args, arc.span),)


def bound_args(name: str, playbook: syntax.Playbook) -> Value:
    """What the arcs to a step bind there, each name with the place where it is first passed."""
    arcs = (arc for step in playbook.steps if step.next for group in step.next.groups for arc in group)
    places: dict[str, Span] = {}
    for arc in arcs:
        if arc.to.text == name:
            for key in names_in(arc.args):
                places.setdefault(key, arc.span)
    source = f"((ctx.passed | default({{}})).{_slug(name)} | default({{}}))"
    data = {key: f"{{{{ {source}[{key!r}] | default(none) }}}}" for key in places}
    return Value(data, {pointer("", key): span for key, span in places.items()})


def _slug(name: str) -> str:
    """A step's name as part of a dotted target."""
    return re.sub(r"\W", "_", name)
