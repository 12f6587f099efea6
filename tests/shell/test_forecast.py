"""The forecast against real histories: the numbers there are lie between least and most, and bytes are of that order.

Where nothing is left open, least and most are the same, so the forecast is exact.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import pytest
from temporalio.client import WorkflowHistory

from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_compiler.forecast import Amount, Forecast, Sizes, forecast
from noetl_compiler.forecasting import cost_model, counts
from noetl_temporal import limits
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.machine import budget
from noetl_temporal.machine.loops import offload
from noetl_temporal.machine.loops.chunks import item_ranges
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving
from noetl_temporal.workflows import workflow_host
from tests.shell.conftest import HEAD, Shell

SEQUENCE = """
- {step: one, tool: {kind: noop}, next: {arcs: [{step: two}]}}
- {step: two, tool: [{name: a, kind: noop}, {name: b, kind: noop}], next: {arcs: [{step: three}]}}
- {step: three, tool: {kind: noop}}
"""
BRANCHES = """
- {step: one, tool: {kind: noop}, next: {arcs: [{step: two, when: "{{ one.number > 100 }}"}, {step: three}]}}
- {step: two, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- {step: three, tool: [{name: a, kind: noop}, {name: b, kind: noop}], next: {arcs: [{step: end}]}}
"""
FORK = """
- {step: one, tool: {kind: noop}, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}}
- {step: a, tool: {kind: noop}, next: {arcs: [{step: d}]}}
- {step: b, tool: {kind: noop}, next: {arcs: [{step: d}]}}
- {step: c, tool: {kind: noop}, next: {arcs: [{step: d}]}}
- {step: d, tool: {kind: noop}}
"""
CYCLE = """
- {step: one, tool: {kind: noop}, next: {arcs: [{step: one, when: "{{ one.number < 4 }}"}, {step: two}]}}
- {step: two, tool: {kind: noop}}
"""
LIMITED_STEP = """
- {step: one, spec: {timeout: 30s}, tool: {kind: noop}}
"""
RETRIED_STEP = """
- step: one
  tool:
    kind: noop
    spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, attempts: 3, delay: 0.1}}]}}
"""
JUMPS = """
- step: one
  tool:
    - {name: first, kind: noop}
    - name: page
      kind: noop
      spec: {policy: {rules: [{when: "{{ output.data.number < 4 }}", then: {do: jump, to: first, delay: 0.1}}]}}
"""
LOOP = """
- step: one
  loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: MODE, max_in_flight: 3}}
  tool: [{name: a, kind: noop}, {name: b, kind: noop}]
"""
CHUNKS = """
- step: one
  loop: {in: "{{ workload.items }}", iterator: item, where: "{{ item > 2 }}", spec: {mode: chunked, chunk_size: 3}}
  tool: {kind: noop}
"""
PAGES = """
- step: one
  tool: noop
  retry:
    on_error: {when: "{{ error is defined }}", max_attempts: 3, initial_delay: 0.1}
    on_success:
      while: "{{ response.number < 4 }}"
      max_attempts: 10
      next_call: {params: {page: "{{ response.number }}"}}
      collect: {strategy: append, path: texts, into: pages}
  next: two
- {step: two, tool: noop}
"""
ITERATOR = """
- {step: start, next: [{step: one}]}
- step: one
  type: iterator
  collection: "{{ workload.items }}"
  element: item
  task: {type: noop}
  next: [{step: end}]
- {step: end}
"""
RULES = """
- step: one
  tool: {kind: noop}
  case:
    - when: "{{ event.name == 'call.error' }}"
      then: {retry: {max_attempts: 3, initial_delay: 0.1}}
    - when: "{{ event.name == 'call.done' and response is defined }}"
      then: {set: {seen: "{{ response.number }}"}, next: [{step: two}]}
- {step: two, tool: {kind: noop}}
"""
SEQUENTIAL, PARALLEL = LOOP.replace("MODE", "sequential"), LOOP.replace("MODE", "parallel")


class Case(NamedTuple):
    """A workflow with ``items`` in its workload, what is known of it, and the bytes that each call really gives."""

    workflow: str
    items: int = 6
    sizes: Sizes = Sizes()
    result_bytes: int = 1_000


def long(steps: int) -> str:
    ways = [f"next: {{arcs: [{{step: s{index + 1}}}]}}" for index in range(steps - 1)]
    return "".join(
        f"- {{step: s{index}, tool: {{kind: noop}}, {way}}}\n" for index, way in enumerate([*ways, "desc: last"])
    )


CASES = {
    "a sequence": Case(SEQUENCE),
    "branches": Case(BRANCHES),
    "a fork and its join": Case(FORK),
    "a cycle": Case(CYCLE, sizes=Sizes(pages={"one": 4})),
    "a time limit": Case(LIMITED_STEP),
    "a retry": Case(RETRIED_STEP),
    "jumps with a delay": Case(JUMPS, sizes=Sizes(pages={"one": 2})),
    "pages of a legacy step": Case(PAGES, sizes=Sizes(pages={"one": 4})),
    "an iterator of v1": Case(ITERATOR),
    "rules of case": Case(RULES),
    "a sequential loop": Case(SEQUENTIAL),
    "a parallel loop": Case(PARALLEL, items=20),
    "an empty loop": Case(PARALLEL, items=0),
    "chunks of some items": Case(CHUNKS, items=12),
    "a loop that gives items back": Case(SEQUENTIAL, items=170, result_bytes=100),
    "a loop in chunks": Case(PARALLEL, items=410, result_bytes=100),
    "small results": Case(SEQUENTIAL, result_bytes=0),
    "results kept in Postgres": Case(SEQUENTIAL, result_bytes=100_000),
    "results that fill a history": Case(long(100), result_bytes=50_000),
}
OPEN = {
    "branches",
    "a fork and its join",
    "a cycle",
    "a parallel loop",
    "a loop in chunks",
    "results kept in Postgres",
}
"""In which least and most differ."""


class Real(NamedTuple):
    """What there was, over all runs of the playbook's workflow and of its loops."""

    amount: Amount
    bytes: int
    longest: int


async def measure(client: NoetlClient, handle: RunHandle) -> Real:
    result = [history async for history in histories(client, handle.workflow_id, handle.run_id)]
    events = [event for history in result for event in history.events]
    timers = sum(event.HasField("timer_started_event_attributes") for event in events)
    calls = sum(event.HasField("activity_task_scheduled_event_attributes") for event in events)
    children = sum(event.HasField("child_workflow_execution_started_event_attributes") for event in events)
    marker_count = sum(event.HasField("marker_recorded_event_attributes") for event in events)
    actions = 2 * calls + timers + children + len(result) + marker_count + 1
    amount = Amount(calls, children, len(result), len(events), actions)
    return Real(amount, sum(event.ByteSize() for event in events), max(len(history.events) for history in result))


async def histories(client: NoetlClient, id_: str, run: str | None) -> AsyncGenerator[WorkflowHistory]:
    """Of a workflow, of those it began and of those it continued as."""
    history = await client.temporal.get_workflow_handle(id_, run_id=run).fetch_history()
    yield history
    for event in history.events:
        if event.HasField("child_workflow_execution_started_event_attributes"):
            child = event.child_workflow_execution_started_event_attributes.workflow_execution
            async for child_history in histories(client, child.workflow_id, child.run_id):
                yield child_history
        if event.HasField("workflow_execution_continued_as_new_event_attributes"):
            following = event.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
            async for child_history in histories(client, id_, following):
                yield child_history


async def compare(shell: Shell, servers: Addresses, case: Case, fails: int) -> tuple[Forecast, Real]:
    """The forecast, and what there was; the first calls fail."""
    head = f"workload: {{items: {list(range(case.items))}}}\n"
    graph = compile_or_raise(f"{HEAD}{head}workflow:\n{case.workflow}")
    sizes = Sizes(case.sizes.items, case.sizes.pages, dict.fromkeys(graph.steps, case.result_bytes))
    calls: list[int] = []

    def answer(_request: Request, _context: ToolContext) -> Any:
        calls.append(1)
        if len(calls) <= fails:
            raise ValueError("not yet")
        return {"number": len(calls), "text": "x" * case.result_bytes, "texts": []}

    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with serving(client.temporal, tools, shell.credentials):
        handle = await Shell.submit(client, case.workflow, head)
        assert (await handle.result()).status == "completed"
        return forecast(graph, sizes=sizes), await measure(client, handle)


@pytest.mark.parametrize("name", CASES)
async def test_the_real_run_is_between_the_least_and_the_most(shell: Shell, servers: Addresses, name: str) -> None:
    foretold, real = await compare(shell, servers, CASES[name], fails=2 if name == "a retry" else 0)
    for field in Amount.__struct_fields__:
        lower, actual, upper = (getattr(case, field) for case in (foretold.lower, real.amount, foretold.upper))
        assert lower <= actual <= upper, (field, lower, actual, upper)
    assert (foretold.lower != foretold.upper) == (name in OPEN)
    assert real.longest <= foretold.largest_history
    assert real.bytes / 2 < foretold.bytes < real.bytes * 2


def test_its_numbers_are_those_of_the_interpreter() -> None:
    assert cost_model.LOOP_EVENTS == workflow_host.SOFT_EVENTS
    assert cost_model.STORED_BYTES == limits.STORE_FROM_BYTES
    assert cost_model.STORED_RESULTS_BYTES == offload.STORE_RESULTS_FROM_BYTES
    assert counts.MAX_IN_FLIGHT == budget.MAX_PENDING
    for size, in_flight in ((0, 9), (1, 9), (400, 9), (401, 9), (900, 1), (10**6, 9)):
        assert cost_model.count_chunks(size, in_flight) == max(1, len(item_ranges([0] * size, in_flight, 10**8)))
