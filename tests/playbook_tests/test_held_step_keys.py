"""The step and the item of a recorded retry or skip, from the name that the request had."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_compiler import compile_or_raise
from noetl_temporal.playbook_tests.recorded_requests import held_step_keys

GRAPH = compile_or_raise(
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\n"
    "workflow: [{step: start, next: [{step: a/b}]}, {step: a/b}]\n"
)


@pytest.mark.parametrize(
    ("place_name", "place"),
    [
        ("start", {"step": "start"}),
        ("a/b", {"step": "a/b"}),
        ("start#2", {"step": "start", "iteration": None}),
        ("start[3]", {"step": "start", "iteration": 3}),
        ("each/1/4/start#1", {"step": "start", "iteration": 4}),
        ("each/1/4/inner/1/2/a%2Fb#2", {"step": "a/b", "iteration": 2}),
    ],
)
def test_a_held_step_is_named_by_itself_its_run_or_its_item(place_name: str, place: dict[str, Any]) -> None:
    assert held_step_keys(place_name, GRAPH) == place
