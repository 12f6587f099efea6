"""How templates see a stored result.

A result is stored once, in one shape. Playbooks of different years read it under different names, so a name in a
template is a *view*: a read-only mapping that falls back to the older shapes, and becomes plain JSON when it is passed
on as a whole (dev/decisions/0006).
"""

from __future__ import annotations

from noetl_temporal.machine.views.event_name import EventName
from noetl_temporal.machine.views.outcome import ErrorView, OutcomeView
from noetl_temporal.machine.views.plain import ListView, ResultView
from noetl_temporal.machine.views.tools import call_view, response_view, result_view

__all__ = [
    "ErrorView",
    "EventName",
    "ListView",
    "OutcomeView",
    "ResultView",
    "call_view",
    "response_view",
    "result_view",
]
