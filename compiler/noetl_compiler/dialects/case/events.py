"""Find the events at which the condition of a ``case`` rule may be true.

A step of this dialect emits events: ``step.enter``; after each call ``call.done`` or ``call.error``; after each item of
a loop ``loop.item``; at the end of a loop ``loop.done``; finally ``step.exit``. The condition of a rule selects events:
``{{ event.name == 'call.done' and response.ok }}``.

The condition is evaluated in three-valued logic, in which only the name of the event is known. The rule handles the
event unless the result is *false*. ``error`` is known too: it is undefined after a successful call, so conditions that
read it are false. This also recognises rules from the first weeks of the dialect, when ``call.done`` followed failed
calls as well: ``event.name == 'call.done' and error is defined``.
"""

from __future__ import annotations

import re

from jinja2 import nodes

from noetl_compiler.graph import Template
from noetl_compiler.language.events import CASE_EVENTS, CaseEvent
from noetl_compiler.templates import TemplateFailure, read_paths
from noetl_compiler.templating.truth import ABSENT, PRESENT, read_expression, truth

__all__ = ["extend_condition", "matching_events", "reads"]

_DEFAULT_EVENTS: tuple[CaseEvent, ...] = ("call.done",)
"""The events that a condition matches if it does not read the event."""

_NAME_IS = re.compile(r"event\.name\s*==\s*(['\"])([\w.]+)\1")


def matching_events(when: Template | None) -> frozenset[CaseEvent]:
    """Return the events at which a condition may be true. One that does not read the event matches calls only."""
    expression = read_expression(when.source) if when else None
    reads_error = reads(when, "error")
    candidates = CASE_EVENTS if reads(when, "event") else _DEFAULT_EVENTS
    if expression is None:
        return frozenset({"call.done", "call.error"} if reads_error else {"call.done"})
    events: set[CaseEvent] = {
        event for event in candidates if _may_hold(expression, event, failed=event == "call.error")
    }
    after_calls: tuple[CaseEvent, ...] = ("call.done", "step.exit", "call.error")
    if reads_error and any(_may_hold(expression, event, failed=True) for event in after_calls):
        events.add("call.error")
    return frozenset(events)


def reads(when: Template | None, *names: str) -> bool:
    """Whether a template reads one of these names."""
    try:
        return when is not None and any(path.partition(".")[0] in names for path in read_paths(when.source))
    except TemplateFailure:
        return False  # syntax errors are reported by the check of templates


def extend_condition(when: Template, event: CaseEvent, other_event: CaseEvent) -> Template:
    """Return the condition with each comparison to ``event`` extended to accept ``other_event`` too."""

    def accept_both(match: re.Match[str]) -> str:
        return f"event.name in ['{event}', '{other_event}']" if match[2] == event else match[0]

    return Template(_NAME_IS.sub(accept_both, when.source), when.span)


def _may_hold(expression: nodes.Expr, event: CaseEvent, *, failed: bool) -> bool:
    return truth(expression, {"event.name": event, "error": PRESENT if failed else ABSENT}) is not False
