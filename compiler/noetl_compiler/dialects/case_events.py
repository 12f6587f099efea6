"""At which events can the condition of a ``case`` rule hold?

A step of this dialect goes through events: ``step.enter``; after each call ``call.done`` or ``call.error``; after
each item of a loop ``loop.item``; when the loop has ended ``loop.done``; at last ``step.exit``. A rule says in
its condition which of them it answers to: ``{{ event.name == 'call.done' and response.ok }}``.

The condition is evaluated with the event's name known and everything else unknown, in logic of three values:
where the result is not *false*, the rule may answer. ``error`` is known too: after a call that went well
there is none, so whatever reads it is undefined and cannot hold. That also tells rules of the first weeks,
when ``call.done`` came after a failed call as well: ``event.name == 'call.done' and error is defined``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError

from noetl_compiler.graph import Template
from noetl_compiler.templates import TemplateFailure, paths
from noetl_compiler.templating.program import parsed

__all__ = ["EVENTS", "Event", "also_at", "answered_events", "reads"]

Event: TypeAlias = Literal["step.enter", "call.done", "call.error", "step.exit", "loop.item", "loop.done"]

EVENTS: tuple[Event, ...] = ("step.enter", "call.done", "call.error", "step.exit", "loop.item", "loop.done")
_OF_CALLS: tuple[Event, ...] = ("call.done",)
"""Where a condition is evaluated that does not ask for the event."""

_COMPARISONS: Mapping[str, Callable[[object, object], bool]] = MappingProxyType(
    {
        "eq": operator.eq,
        "ne": operator.ne,
        "in": lambda left, right: isinstance(right, tuple) and left in right,
        "notin": lambda left, right: isinstance(right, tuple) and left not in right,
    }
)
_UNKNOWN = object()
_NAME_IS = re.compile(r"event\.name\s*==\s*(['\"])([\w.]+)\1")


def answered_events(when: Template | None) -> frozenset[Event]:
    """The events at which a condition may hold. One that does not ask for the event answers to calls."""
    expression = _expression(when)
    about_error = reads(when, "error")
    asked = EVENTS if reads(when, "event") else _OF_CALLS
    if expression is None:
        return frozenset({"call.done", "call.error"} if about_error else {"call.done"})
    found: set[Event] = {event for event in asked if _may_hold(expression, event, failed=event == "call.error")}
    after_calls: tuple[Event, ...] = ("call.done", "step.exit", "call.error")
    if about_error and any(_may_hold(expression, event, failed=True) for event in after_calls):
        found.add("call.error")
    return frozenset(found)


def reads(when: Template | None, *names: str) -> bool:
    """Whether a template names one of these."""
    try:
        return when is not None and any(path.partition(".")[0] in names for path in paths(when.source))
    except TemplateFailure:
        return False  # the check of templates tells what is wrong with it


def also_at(when: Template, event: Event, other: Event) -> Template:
    """The condition, where it asks for ``event``, letting ``other`` pass as well."""

    def both(found: re.Match[str]) -> str:
        return f"event.name in ['{event}', '{other}']" if found[2] == event else found[0]

    return Template(_NAME_IS.sub(both, when.source), when.span)


def _expression(when: Template | None) -> nodes.Expr | None:
    """The one expression of a template, None when it has none or more."""
    try:
        body = parsed(when.source).body if when else []
    except TemplateSyntaxError:
        return None
    parts = [part for node in body if isinstance(node, nodes.Output) for part in node.nodes]
    found = [part for part in parts if not (isinstance(part, nodes.TemplateData) and not part.data.strip())]
    return found[0] if len(found) == 1 and len(body) == 1 else None


def _may_hold(expression: nodes.Expr, event: Event, failed: bool) -> bool:
    return _truth(expression, event, failed) is not False


def _truth(node: nodes.Expr, event: Event, failed: bool) -> bool | None:
    """True, False, or None for unknown."""
    match node:
        case nodes.And():
            return _both(_truth(node.left, event, failed), _truth(node.right, event, failed))
        case nodes.Or():
            return _either(_truth(node.left, event, failed), _truth(node.right, event, failed))
        case nodes.Not():
            inner = _truth(node.node, event, failed)
            return None if inner is None else not inner
        case nodes.Const():
            return bool(node.value)
        case nodes.Test() if node.name in ("defined", "undefined") and _is_error(node.node):
            return failed == (node.name == "defined")
        case nodes.Compare():
            return _comparison(node, event, failed)
        case _:
            return False if _is_error(node) and not failed else None


def _both(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _either(left: bool | None, right: bool | None) -> bool | None:
    if left or right:
        return True
    return None if left is None or right is None else False


def _comparison(node: nodes.Compare, event: Event, failed: bool) -> bool | None:
    if not failed and any(_is_error(part) for part in (node.expr, *(operand.expr for operand in node.ops))):
        return False
    if len(node.ops) != 1:
        return None
    left, right = _constant(node.expr, event), _constant(node.ops[0].expr, event)
    compare = _COMPARISONS.get(node.ops[0].op)
    if compare is None or left is _UNKNOWN or right is _UNKNOWN:
        return None
    return compare(left, right)


def _constant(node: nodes.Expr, event: Event) -> object:
    """The value of a constant, of a list of constants, or of the event's name."""
    match node:
        case nodes.Getattr(node=nodes.Name(name="event"), attr="name"):
            return event
        case nodes.Const():
            return node.value
        case nodes.List() | nodes.Tuple():
            items = tuple(_constant(item, event) for item in node.items)
            return _UNKNOWN if _UNKNOWN in items else items
        case _:
            return _UNKNOWN


def _is_error(node: nodes.Expr) -> bool:
    """``error`` or a field of it."""
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        node = node.node
    return isinstance(node, nodes.Name) and node.name == "error"
