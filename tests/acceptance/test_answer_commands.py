"""The commands that a waiting run is shown with: they can be copied, with everything that they must have."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_temporal.cli.open_waits import open_wait
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
