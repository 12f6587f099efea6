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

import re

from jinja2 import nodes

from noetl_compiler.graph import Template
from noetl_compiler.language.events import CASE_EVENTS, CaseEvent
from noetl_compiler.templates import TemplateFailure, paths
from noetl_compiler.templating.truth import ABSENT, PRESENT, read_expression, truth

__all__ = ["also_at", "answered_events", "reads"]

_OF_CALLS: tuple[CaseEvent, ...] = ("call.done",)
"""Where a condition is evaluated that does not ask for the event."""

_NAME_IS = re.compile(r"event\.name\s*==\s*(['\"])([\w.]+)\1")


def answered_events(when: Template | None) -> frozenset[CaseEvent]:
    """The events at which a condition may hold. One that does not ask for the event answers to calls."""
    expression = read_expression(when.source) if when else None
    about_error = reads(when, "error")
    asked = CASE_EVENTS if reads(when, "event") else _OF_CALLS
    if expression is None:
        return frozenset({"call.done", "call.error"} if about_error else {"call.done"})
    found: set[CaseEvent] = {event for event in asked if _may_hold(expression, event, failed=event == "call.error")}
    after_calls: tuple[CaseEvent, ...] = ("call.done", "step.exit", "call.error")
    if about_error and any(_may_hold(expression, event, failed=True) for event in after_calls):
        found.add("call.error")
    return frozenset(found)


def reads(when: Template | None, *names: str) -> bool:
    """Whether a template names one of these."""
    try:
        return when is not None and any(path.partition(".")[0] in names for path in paths(when.source))
    except TemplateFailure:
        return False  # the check of templates tells what is wrong with it


def also_at(when: Template, event: CaseEvent, other: CaseEvent) -> Template:
    """The condition, where it asks for ``event``, letting ``other`` pass as well."""

    def both(found: re.Match[str]) -> str:
        return f"event.name in ['{event}', '{other}']" if found[2] == event else found[0]

    return Template(_NAME_IS.sub(both, when.source), when.span)


def _may_hold(expression: nodes.Expr, event: CaseEvent, *, failed: bool) -> bool:
    return truth(expression, {"event.name": event, "error": PRESENT if failed else ABSENT}) is not False
