"""Find the events at which the condition of a ``case`` rule may be true.

A step of this dialect emits events: ``step.enter``; after each call ``call.done`` or ``call.error``; after each item of
a loop ``loop.item``; at the end of a loop ``loop.done``; finally ``step.exit``. The condition of a rule selects events:
``{{ event.name == 'call.done' and response.ok }}``.

The condition is evaluated in three-valued logic with only the event's name known; unless the result is *false*, the
rule handles the event. ``error`` is known too: it is undefined after a successful call, so conditions that read it are
false. This also recognises rules from the first weeks of the dialect, when ``call.done`` followed failed calls as well:
``event.name == 'call.done' and error is defined``.
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
"""The events of a condition that does not read the event."""

_NAME_IS = re.compile(r"event\.name\s*==\s*(['\"])([\w.]+)\1")


def answered_events(when: Template | None) -> frozenset[CaseEvent]:
    """Return the events at which a condition may be true; those of calls if it does not read the event."""
    expression = read_expression(when.source) if when else None
    about_error = reads(when, "error")
    candidates = CASE_EVENTS if reads(when, "event") else _OF_CALLS
    if expression is None:
        return frozenset({"call.done", "call.error"} if about_error else {"call.done"})
    found: set[CaseEvent] = {
        event for event in candidates if _may_hold(expression, event, failed=event == "call.error")
    }
    after_calls: tuple[CaseEvent, ...] = ("call.done", "step.exit", "call.error")
    if about_error and any(_may_hold(expression, event, failed=True) for event in after_calls):
        found.add("call.error")
    return frozenset(found)


def reads(when: Template | None, *names: str) -> bool:
    """Whether a template names one of these."""
    try:
        return when is not None and any(path.partition(".")[0] in names for path in paths(when.source))
    except TemplateFailure:
        return False  # syntax errors are reported by the check of templates


def also_at(when: Template, event: CaseEvent, other: CaseEvent) -> Template:
    """Return the condition with comparisons to ``event`` extended to accept ``other`` too."""

    def both(found: re.Match[str]) -> str:
        return f"event.name in ['{event}', '{other}']" if found[2] == event else found[0]

    return Template(_NAME_IS.sub(both, when.source), when.span)


def _may_hold(expression: nodes.Expr, event: CaseEvent, *, failed: bool) -> bool:
    return truth(expression, {"event.name": event, "error": PRESENT if failed else ABSENT}) is not False
