"""The commands that a waiting run is shown with: they can be copied, with everything that they must have."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_temporal.cli.open_waits import open_wait
from noetl_temporal.cli.suspensions import suspensions_of
from noetl_temporal.control_requests import OpenWaits
from noetl_temporal.machine.held_steps import HeldStep
from noetl_temporal.machine.waits.wait import Wait


@pytest.mark.parametrize(
    ("fields", "command"),
    [
        ({"kind": "approval"}, "noetl approve 7 review, or noetl reject"),
        ({"kind": "approval", "iteration": 3}, "noetl approve 7 'review[3]', or noetl reject"),
        (
            {
                "kind": "approval",
                "form": {"amount": {"type": "number", "required": True}, "note": "string"},
                "approvers": ("ann", "bob"),
            },
            "noetl approve 7 review --form amount=... --as ann, or noetl reject",
        ),
        ({"kind": "signal", "signal": "paid"}, "noetl signal 7 paid"),
        ({"kind": "retry", "signal": "it's fixed", "key": "a b"}, "noetl signal 7 'it'\\''s fixed' --key 'a b'"),
        ({"kind": "time"}, ""),
    ],
)
def test_the_command_has_what_the_answer_needs(fields: dict[str, Any], command: str) -> None:
    wait = Wait(id="x", run="review#1", step="review", task="ask", since=0, **fields)
    assert open_wait(7, wait).answer == command


def test_times_are_shown_as_in_tables() -> None:
    due = 1_795_939_200_250
    wait = Wait(id="x", run="review#1", step="review", task="ask", since=0, kind="time", due=due)
    assert open_wait(7, wait).line() == "review waits until 2026-11-29 08:00:00 UTC"
    [held] = suspensions_of(7, OpenWaits([], held=[HeldStep("load#1", "load", "no such table", due)]))
    assert held.line().startswith("load#1 is held until 2026-11-29 08:00:00 UTC (no such table): noetl retry 7 ")
    assert (open_wait(7, wait).due, held.due) == ("2026-11-29T08:00:00.250+00:00",) * 2, "JSON has ISO 8601"
