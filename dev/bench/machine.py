"""Measures the machine in microseconds per fact, and replays in history events per second.

    python dev/bench/machine.py [--only loop] [--profile] [--histories FOLDER]

The machine runs in memory, and each of its calls is answered at once, in the order in which the calls began. Only the
processor time of ``feed`` in this thread counts. A fact of a loop ends one item and begins another: four events and a
call. The cost of a fact should not depend on the length of the playbook or loop.

replaying.py says which histories are replayed; it records them into the folder of ``--histories``, or reads them there
if they exist. ``--profile`` prints where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from dev.bench.replaying import replays
from dev.simulate.simulated_values import SimulatedValues
from noetl_compiler import compile_or_raise
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.limits import STORED_BYTES
from noetl_temporal.machine.call import AttemptCounts, AttemptRecord, ToolCall, ToolReport
from noetl_temporal.machine.commands import CallTool, Command, Finish, LoadValue, RunChunk, StoreValues
from noetl_temporal.machine.facts import (
    ChunkFinished,
    Continued,
    Fact,
    Started,
    ToolFinished,
    ValueLoaded,
    ValuesStored,
)
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine

IN_FLIGHT = 100
WINDOW = 50
PROFILE_LINES = 25
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: bench, path: bench/machine}\n"
RETRY = ", spec: {policy: {rules: [{when: '{{ outcome.status == \"error\" }}', then: {do: retry, attempts: 3}}]}}"
PAGES = (
    ", spec: {policy: {rules: [{when: '{{ page < 3 }}', then: {do: again, patch: {result: '{{ page }}'}, "
    "collect: {strategy: append, path: data, into: pages}}}]}}"
)


def sequence(count: int) -> str:
    steps = "".join(
        f"  - step: s{index}\n    tool: {{kind: noop, result: {index}}}\n    next: {{arcs: [{{step: s{index + 1}}}]}}\n"
        for index in range(count - 1)
    )
    return f"{HEAD}workflow:\n{steps}  - step: s{count - 1}\n    tool: {{kind: noop, result: 1}}\n"


def fan(count: int) -> str:
    arcs = ", ".join(f"{{step: b{index}}}" for index in range(count))
    steps = "".join(f"  - step: b{index}\n    tool: {{kind: noop, result: {index}}}\n" for index in range(count))
    return f"{HEAD}workflow:\n  - step: start\n    next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}\n{steps}"


def loop(rule: str = "") -> str:
    """Return a loop over the items of the request: the text does not grow with the number of items."""
    return (
        f"{HEAD}workload: {{items: []}}\nworkflow:\n  - step: each\n"
        '    loop:\n      in: "{{ workload.items }}"\n      iterator: item\n'
        f"      spec: {{mode: parallel, max_in_flight: {IN_FLIGHT}}}\n"
        f'    tool: {{kind: noop, result: "{{{{ iter.item }}}}"{rule}}}\n'
    )


SHAPES: dict[str, tuple[str, int]] = {
    "sequence of 200": (sequence(200), 0),
    "sequence of 2,000": (sequence(2_000), 0),
    "fan-out of 500": (fan(500), 0),
    "loop of 1,000": (loop(), 1_000),
    "loop of 10,000": (loop(), 10_000),
    "loop of 100,000": (loop(), 100_000),
    "loop of 10,000, a retry rule": (loop(RETRY), 10_000),
    "loop of 3,000, three pages": (loop(PAGES), 3_000),
}


class Cost(NamedTuple):
    """The number of facts, and the seconds per fact: the mean of all, of the first tenth, of the last tenth, and of the
    fastest window between them, which is least disturbed by other processes.
    """

    facts: int
    mean: float
    first_tenth: float
    last_tenth: float
    best: float


class Meter:
    """Feeds facts to machines, and measures the seconds of each."""

    def __init__(self) -> None:
        self.laps: list[float] = []
        self._now = EPOCH_MS
        self._values = SimulatedValues(random.Random(1))

    def drive(self, machine: PlaybookMachine | LoopMachine, items: int = 0) -> None:
        in_flight: deque[Callable[[int], Fact]] = deque([partial(Started, payload={"items": list(range(items))})])
        while in_flight:
            commands = self._feed(machine, in_flight.popleft())
            while machine.has_work:
                machine.budget.renew()
                commands += self._feed(machine, Continued)
            machine.budget.renew()
            in_flight += self._answers(commands)

    def cost(self) -> Cost:
        tenth, laps = max(1, len(self.laps) // 10), self.laps
        size = max(WINDOW, len(laps) // 8)  # whole chunks of a loop: their last items end without another beginning
        windows = [laps[start : start + size] for start in range(tenth, len(laps) - tenth - size, size)]
        best = min(statistics.mean(window) for window in windows)
        return Cost(len(laps), statistics.mean(laps), sum(laps[:tenth]) / tenth, sum(laps[-tenth:]) / tenth, best)

    def _feed(self, machine: PlaybookMachine | LoopMachine, fact: Callable[[int], Fact]) -> list[Command]:
        self._now += 1
        event = fact(self._now)
        start = time.thread_time()
        commands = machine.feed(event)
        self.laps.append(time.thread_time() - start)
        return commands

    def _answers(self, commands: Iterable[Command]) -> Iterator[Callable[[int], Fact]]:
        for command in commands:
            match command:
                case CallTool(call):
                    yield partial(ToolFinished, call_id=call.id, report=_report(call, self._now))
                case RunChunk(chunk_id, input_):
                    machine = LoopMachine(self._values.with_items(input_), limit=STORED_BYTES)
                    self.drive(machine)
                    if machine.report is not None:
                        yield partial(ChunkFinished, chunk_id=chunk_id, report=machine.report)
                case StoreValues(id_, values=values):
                    yield partial(ValuesStored, store_id=id_, references=tuple(map(self._values.keep, values)))
                case LoadValue(id_, stored):
                    yield partial(ValueLoaded, load_id=id_, value=self._values.load(stored))
                case Finish(status, failures=failures) if status != "completed":
                    raise SystemExit(f"the playbook {status}: {failures.cause}")
                case _:
                    pass


def _report(call: ToolCall, at: int) -> ToolReport:
    """Return the report of a successful call. Before page 3 the rule with ``again`` matches."""
    is_repeated = call.page is not None and call.page < 3
    attempt = AttemptRecord(1, at, "ok", at + 1, worker="1@bench")
    result = {"data": [call.page]} if call.page else call.config.get("result")
    return ToolReport(
        {"status": "ok", "result": result},
        rule=0 if is_repeated else None,
        attempts=(attempt,),
        counts=AttemptCounts(1, 1, 1),
    )


@contextmanager
def print_profile(is_wanted: bool) -> Generator[None]:
    profile = cProfile.Profile(time.thread_time)
    if is_wanted:
        profile.enable()
    try:
        yield
    finally:
        profile.disable()
        if is_wanted:
            pstats.Stats(profile).sort_stats("tottime").print_stats(PROFILE_LINES)


def facts(only: str, is_profiled: bool) -> None:
    Meter().drive(_machine(sequence(200)))  # Python specialises code while it first runs
    print(f"{'':34}{'facts':>9}{'us a fact':>12}{'first tenth':>14}{'last tenth':>12}{'best':>8}")
    for name, (text, items) in SHAPES.items():
        if only not in name:
            continue
        meter, machine = Meter(), _machine(text)
        gc.freeze()  # what exists by now is not searched for garbage, as in a worker
        with print_profile(is_profiled):
            meter.drive(machine, items)
        cost = meter.cost()
        print(
            f"{name:34}{cost.facts:9,}{cost.mean * 1e6:12.1f}"
            f"{cost.first_tenth * 1e6:14.1f}{cost.last_tenth * 1e6:12.1f}{cost.best * 1e6:8.1f}"
        )


def _machine(text: str) -> PlaybookMachine:
    return PlaybookMachine(compile_or_raise(text), execution_id=1, limit=STORED_BYTES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="shapes whose name has this, or 'replay'")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--histories", type=Path)
    options = parser.parse_args()
    if options.only != "replay":
        facts(options.only, options.profile)
    if options.only in ("", "replay"):
        with print_profile(options.profile):
            replays(options.histories)


if __name__ == "__main__":
    main()
