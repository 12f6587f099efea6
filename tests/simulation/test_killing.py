"""The playbooks of dev/killing compile without a finding, which a run of the script would show only after minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.killing.cursor import cursor_loop
from dev.killing.playbook import plain_loop
from dev.killing.sub_playbooks import write_playbooks
from noetl_compiler import compile_text


@pytest.mark.parametrize(
    "text",
    [
        plain_loop(framed=False),
        plain_loop(framed=True),
        cursor_loop(4, over_steps=False),
        cursor_loop(4, over_steps=True),
    ],
    ids=["plain", "framed", "cursor", "steps"],
)
def test_a_playbook_to_kill_at_compiles(text: str) -> None:
    result = compile_text(text, "killing.yaml")
    assert result.graph is not None
    assert not result.diagnostics


def test_the_playbooks_that_call_each_other_compile(tmp_path: Path) -> None:
    caller = write_playbooks(tmp_path)
    for file in (caller, tmp_path / "item.yaml"):
        assert compile_text(file.read_text(), file.name).graph is not None
