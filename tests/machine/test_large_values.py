"""Large values of the request and of ``set``: stored when a run is to continue as new, read where they are named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl_temporal.limits import INLINE_BYTES, STORE_FROM_BYTES
from noetl_temporal.machine.commands import CallTool, Cancel, Command, Finish, LoadValue, RunChunk, StoreValues
from noetl_temporal.machine.facts import (
    CancelRequested,
    Continued,
    IdleRequested,
    PayloadRef,
    Restored,
    ToolFinished,
    ValueLoaded,
    ValuesStored,
)

from .driver import ok
from .test_stored import TWO_CALLS, WatchedRun

BIG = "b" * STORE_FROM_BYTES
ROWS = [{"n": n} for n in range(STORE_FROM_BYTES // 8)]

SETTING = """
  - step: start
    tool: {kind: noop}
    set: {ctx.rows: "{{ start.rows }}"}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: noop}
    set: {%s}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: noop, message: "%s"}
"""


def keeps(commands: list[Command]) -> list[StoreValues]:
    return [command for command in commands if isinstance(command, StoreValues)]


def loads(commands: list[Command]) -> list[LoadValue]:
    return [command for command in commands if isinstance(command, LoadValue)]


class Steady(WatchedRun):
    """Not restored before each fact: what is loaded is no part of a snapshot."""

    def feed(self, fact: Any, *arguments: Any, **more: Any) -> list[Command]:
        self.now += 10
        commands = self.machine.feed(fact(self.now, *arguments, **more))
        self.commands += commands
        return commands


class Store:
    """What a run has stored."""

    def __init__(self, run: WatchedRun) -> None:
        self.run = run
        self.values: dict[str, Any] = {}

    def hold(self) -> list[str]:
        """Ask the run to hold, and store what it wants stored; the keys."""
        [*_, keep] = [None, *keeps(self.run.feed(IdleRequested))]
        return [] if keep is None else self.stored_keys(keep)

    def stored_keys(self, keep: StoreValues) -> list[str]:
        texts = [msgspec.json.encode(value) for value in keep.values]
        keys = [f"{len(self.values) + place}" for place in range(len(texts))]
        self.values |= dict(zip(keys, keep.values, strict=True))
        self.run.feed(
            ValuesStored, keep.id, tuple(PayloadRef(key, len(text)) for key, text in zip(keys, texts, strict=True))
        )
        return keys

    def load(self, commands: list[Command]) -> list[Command]:
        """Load the one value that these commands ask for."""
        [load] = loads(commands)
        return self.run.feed(ValueLoaded, load.id, self.values[load.stored.parts[0].key])

    def size(self) -> int:
        return len(msgspec.json.encode(self.run.machine.snapshot()))


def started(template: str, **payload: Any) -> tuple[WatchedRun, Store]:
    run = WatchedRun(TWO_CALLS % template, **payload)
    return run, Store(run)


def set_rows(then: str, message: str = "none") -> tuple[WatchedRun, Store]:
    """A run whose first step has set ``ctx.rows`` to a large list, which is stored."""
    run = WatchedRun(SETTING % (then, message))
    store = Store(run)
    run.feed(ToolFinished, "start#1:start_task:1", ok({"rows": ROWS}))
    return run, store


def message_of(run: WatchedRun, step: str) -> Any:
    call = run.call(step)
    assert isinstance(call, CallTool)
    return call.call.config["message"]


def test_large_values_of_the_request_are_stored_once_before_continue_as_new() -> None:
    run, store = started("none", big=BIG, rows=ROWS)
    assert not keeps(run.commands)
    assert len(store.hold()) == 4  # of the payload and of the workload
    assert store.size() < 3000
    assert run.machine.is_idle is False  # the call of the first step
    assert run.machine.state.stored_values.keys() == {"payload", "workload"}


def test_a_template_loads_nothing_but_the_value_that_it_reads() -> None:
    run, store = started("{{ workload.name }} {{ workload.big | length }}", big=BIG, rows=ROWS)
    store.hold()
    run.feed(Continued)
    commands = run.feed(ToolFinished, "start#1:start_task:1", ok())
    assert run.call("after") is None
    store.load(commands)
    assert message_of(run, "after") == f"many {len(BIG)}"
    assert store.size() < 3000


def test_a_template_that_reads_small_values_loads_nothing() -> None:
    run, store = started("{{ name }} {{ workload.keys() | list | join(' ') }} {{ payload | length }}", big=BIG, small=1)
    store.hold()
    run.feed(Continued)
    run.feed(ToolFinished, "start#1:start_task:1", ok())
    assert message_of(run, "after") == "many name big small 3"


@pytest.mark.parametrize("template", ["{{ big }}", "{{ workload.big }}", "{{ ctx.big }}", "{{ payload.big }}"])
def test_a_stored_value_has_all_its_names(template: str) -> None:
    run, store = started(template, big=BIG)
    store.hold()
    run.feed(Continued)
    store.load(run.feed(ToolFinished, "start#1:start_task:1", ok()))
    assert message_of(run, "after") == BIG


def test_the_workload_as_a_whole_has_every_value_in_its_place() -> None:
    run = Steady(TWO_CALLS % "{{ workload }}", big=BIG, rows=ROWS, small=1)
    store = Store(run)
    store.hold()
    run.feed(Continued)
    store.load(store.load(run.feed(ToolFinished, "start#1:start_task:1", ok())))
    assert list(message_of(run, "after").items()) == list(
        {"name": "many", "big": BIG, "rows": ROWS, "small": 1}.items()
    )


def test_large_values_of_set_are_measured_and_stored_once() -> None:
    run, store = set_rows("")
    assert len(store.hold()) == 1
    assert run.machine.state.ctx == {"rows": None}
    assert run.machine.state.unmeasured == []
    assert store.hold() == []


def test_small_values_are_measured_once() -> None:
    run, store = started("none", list=[1, 2, 3])
    assert run.machine.state.unmeasured == ["payload.list", "workload.list"]
    assert store.hold() == []
    assert run.machine.state.unmeasured == []


def test_a_list_that_is_added_to_is_loaded_and_stored_again_when_the_run_is_to_continue() -> None:
    run, store = set_rows('"ctx.rows[]": 7', "{{ ctx.rows | length }} {{ ctx.rows | last }}")
    store.hold()
    run.feed(Continued)
    store.load(run.feed(ToolFinished, "after#1:after_task:1", ok()))
    assert message_of(run, "last") == f"{len(ROWS) + 1} 7"
    [key] = store.hold()
    assert store.values[key] == [*ROWS, 7]


def test_a_part_of_a_stored_value_may_be_written() -> None:
    text = SETTING.replace("{{ start.rows }}", "{{ start }}") % (
        "ctx.rows.b: 2",
        "{{ ctx.rows.b }} {{ ctx.rows.a | length }}",
    )
    run = WatchedRun(text)
    store = Store(run)
    run.feed(ToolFinished, "start#1:start_task:1", ok({"a": BIG, "b": 1}))
    store.hold()
    run.feed(Continued)
    store.load(run.feed(ToolFinished, "after#1:after_task:1", ok()))
    assert message_of(run, "last") == f"2 {len(BIG)}"
    assert [store.values[key] for key in store.hold()] == [{"a": BIG, "b": 2}]


def test_a_stored_value_is_replaced_without_being_loaded() -> None:
    run, store = set_rows("ctx.rows: 1", "{{ ctx.rows }}")
    store.hold()
    run.feed(Continued)
    assert not loads(run.feed(ToolFinished, "after#1:after_task:1", ok()))
    assert message_of(run, "last") == 1


@pytest.mark.parametrize("value", ["1", '"{{ after.rows }}"'])
def test_a_value_set_while_the_old_one_is_being_stored_stays_in_the_state(value: str) -> None:
    run, store = set_rows(f"ctx.rows: {value}", "{{ ctx.rows }}")
    [keep] = keeps(run.feed(IdleRequested))
    run.feed(Continued)
    run.feed(ToolFinished, "after#1:after_task:1", ok({"rows": [BIG]}))
    store.stored_keys(keep)
    assert message_of(run, "last") == run.machine.state.ctx["rows"] == (1 if value == "1" else [BIG])
    assert len(store.hold()) == (0 if value == "1" else 1)


def test_a_call_whose_end_waits_for_a_value_is_not_in_flight() -> None:
    """The host waits for the value then, and continues as new."""
    run, store = set_rows('"ctx.rows[]": 7')
    store.hold()
    assert not run.machine.waits_only_for_store
    commands = run.feed(ToolFinished, "after#1:after_task:1", ok())
    assert run.machine.waits_only_for_store
    [keep] = keeps(store.load(commands))
    assert run.machine.waits_only_for_store
    store.stored_keys(keep)
    assert run.machine.is_idle


def test_a_value_that_cannot_be_stored_stays() -> None:
    run, _ = set_rows("", "{{ ctx.rows | length }}")
    [keep] = keeps(run.feed(IdleRequested))
    run.feed(ValuesStored, keep.id, error="gone")
    run.feed(Continued)
    run.feed(ToolFinished, "after#1:after_task:1", ok())
    assert message_of(run, "last") == len(ROWS)


def test_a_stop_does_not_wait_for_what_is_being_stored() -> None:
    run, _ = set_rows("")
    [keep] = keeps(run.feed(IdleRequested))
    run.feed(CancelRequested, "no more")
    commands = run.feed(ToolFinished, "after#1:after_task:1", ok(), cancelled=True)
    assert Cancel(keep.id) in commands
    assert isinstance(commands[-1], Finish)
    assert not run.machine.state.pending


def test_a_new_host_has_what_was_being_stored_stored_again() -> None:
    run, store = set_rows("")
    [keep] = keeps(run.feed(IdleRequested))
    run.feed(Restored)
    assert run.feed(ValuesStored, keep.id, (PayloadRef("late", 1),)) == []
    assert [store.values[key] for key in store.hold()] == [ROWS]


def test_without_a_payload_store_nothing_is_stored() -> None:
    run = WatchedRun(TWO_CALLS % "none", limit=INLINE_BYTES, big=BIG)
    assert run.feed(IdleRequested) == []


def test_a_loop_over_a_stored_value_loads_it_and_stores_the_items() -> None:
    text = """
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ workload.rows }}", iterator: row, spec: {mode: parallel}}
    tool: {kind: noop, message: "{{ iter.row.n }} {{ workload.name }}"}
"""
    run = WatchedRun(text, rows=ROWS)
    store = Store(run)
    store.hold()
    run.feed(Continued)
    [keep] = keeps(store.load(run.feed(ToolFinished, "start#1:start_task:1", ok())))
    store.stored_keys(keep)
    chunks = [command for command in run.commands if isinstance(command, RunChunk)]
    assert sum(len(items) for items in keep.values[:-1]) == chunks[0].input.total == len(ROWS)
    assert keep.values[-1] == {"workload": {"name": "many"}}
    assert store.size() < 20_000
