"""The commands that a waiting run is shown with: they can be copied, with everything that they must have."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_temporal.cli.open_waits import open_wait
from noetl_temporal.cli.suspensions import reported_suspensions
from noetl_temporal.machine.held_steps import HeldStep
from noetl_temporal.machine.waits.wait import Wait
from noetl_temporal.messages.control_requests import OpenWaits


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
        (
            {
                "kind": "signal",
                "signal": "paid",
                "key": "a",
                "schema": {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]},
            },
            """noetl signal 7 paid --key a --data '{"amount": "<number>"}'""",
        ),
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
    [held] = reported_suspensions(7, OpenWaits([], held=[HeldStep("load#1", "load", "no such table", due)]))
    assert held.line().startswith("load is held until 2026-11-29 08:00:00 UTC (no such table): noetl retry 7 ")
    assert (open_wait(7, wait).due, held.due) == ("2026-11-29T08:00:00.250+00:00",) * 2, "JSON has ISO 8601"


def test_held_steps_have_the_names_that_the_commands_take() -> None:
    of_items = [HeldStep(f"each/1/{index}/load#1", "load", "refused", 0, index) for index in (0, 2)]
    of_nested_items = [HeldStep(f"each/1/{index}/inner/1/0/send#1", "send", "refused", 0, 0) for index in (0, 1)]
    found = list(reported_suspensions(7, OpenWaits([], held=[*of_items, *of_nested_items])))
    names = ["load[0]", "load[2]", *(step.run for step in of_nested_items)]
    assert [held.name for held in found] == names, "the id of the run where a name is not unique"
    assert all(f"--step '{name}', or" in held.line() for name, held in zip(names, found, strict=True))
