"""Compiling takes time in proportion to the text. A check that compares everything with everything would show here."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from types import FrameType

import pytest

from noetl_compiler import compile_text

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x}\nworkflow:\n"


def chain(count: int, step: str) -> str:
    """Steps one after the other, ``#`` in each is its number."""
    steps = (step.replace("#", str(index)) + f", next: {{arcs: [{{step: s{index + 1}}}]}}}}" for index in range(count))
    return (
        HEAD + "".join(f"  - {{step: s{index}, {step}\n" for index, step in enumerate(steps)) + f"  - step: s{count}\n"
    )


def tasks(count: int) -> str:
    entries = "".join(
        f"      - t{index}: {{kind: noop, result: '{{{{ workload.a{index} }}}}'}}\n" for index in range(count)
    )
    return f"{HEAD}  - step: start\n    tool:\n{entries}"


def inputs(count: int) -> str:
    entries = "".join(f"      i{index}: '{{{{ workload.a{index} }}}}'\n" for index in range(count))
    return f"{HEAD}  - step: start\n    input:\n{entries}    tool: {{kind: noop}}\n"


def calls(count: int) -> str:
    """Other names for each count: what is known of a template is remembered."""
    source = " ".join(f"{{{{ f{count}_{index}(1) }}}}" for index in range(count))
    return f"{HEAD}  - {{step: s, tool: {{kind: noop, result: '{source}'}}}}\n"


SHAPES: dict[str, Callable[[int], str]] = {
    "steps": lambda count: chain(count, "tool: {kind: noop, result: '{{ workload.a# }}'}"),
    "steps that read the first": lambda count: chain(count, "tool: {kind: noop, result: '{{ s0.x + # }}'}"),
    "tasks of one step": tasks,
    "inputs of one step": inputs,
    "calls of functions that are not there": calls,
    "names nobody binds": lambda count: chain(count, "tool: {kind: noop, result: '{{ nothing# }}'}"),
}


def seconds(shape: Callable[[int], str], count: int) -> float:
    text = shape(count)
    started_at = time.process_time()
    compile_text(text)
    return time.process_time() - started_at


@pytest.mark.parametrize("name", SHAPES)
def test_eight_times_the_text_takes_far_less_than_the_square_of_that(name: str) -> None:
    seconds(SHAPES[name], 20)
    small = min(seconds(SHAPES[name], 150), seconds(SHAPES[name], 151))
    assert seconds(SHAPES[name], 1200) < 40 * small


def functions_called(text: str) -> int:
    """How often Python functions are called, and generators resumed, while a text is compiled."""
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        compile_text(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", sorted(SHAPES.keys() - {"names nobody binds"}))
def test_four_times_the_text_calls_four_times_as_many_functions(name: str) -> None:
    """Counts find a square of cheap calls, which is hidden in the time of small playbooks. The hint about a name that
    nobody binds is a search in all other names, which is left to the test above.
    """
    functions_called(SHAPES[name](20))
    assert functions_called(SHAPES[name](608)) < 4.3 * functions_called(SHAPES[name](152))


@pytest.mark.parametrize("name", SHAPES)
def test_compiling_leaves_nothing_to_the_garbage_collector(name: str) -> None:
    gc.collect()
    gc.disable()
    try:
        compile_text(SHAPES[name](20))
        assert gc.collect() == 0
    finally:
        gc.enable()
