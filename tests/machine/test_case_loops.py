"""What rules about the events of a loop and of its items do (dev/decisions/0011, 0067)."""

from __future__ import annotations

import pytest

from .activity import Activity
from .case_runs import DONE, HEAD, echo, run, steps
from .driver import run_text

LOOP = """
  - step: start
    loop: {in: [1, 2, 3], iterator: n}
    tool: {kind: noop, result: {n: "{{ n }}"}}
    case:
      - {when: "{{ event.name == 'step.enter' }}", then: {set: {odd: []}}}
      - when: "{{ event.name == 'call.done' and result.n % 2 == 1 }}"
        then:
          - collect: {from: result.n, into: odd, mode: append}
          - sink: {tool: postgres, table: t, data: {n: "{{ n }}"}}
          - next: {step: other, args: {n: "{{ n }}", all: "{{ ctx.odd }}"}}
      - {when: "{{ event.name == 'loop.done' }}", then: {next: end}}
"""


def test_a_route_that_an_item_names_is_taken_at_once() -> None:
    workflow = LOOP + "  - {step: other, tool: {kind: noop}, args: {n: null, all: null}}\n"
    finished, activity = run(workflow)
    assert steps(finished) == ["other", "other", "start", "end"]
    assert [call.input for call in finished.calls if call.step == "other"] == [
        {"n": 1, "all": [1]},
        {"n": 3, "all": [1, 3]},
    ]
    assert [row["data"] for row in activity.stored_configs] == [{"n": 1}, {"n": 3}]


def test_a_loop_takes_the_route_of_its_end_if_no_item_chose_one() -> None:
    finished, _ = run(LOOP.replace("[1, 2, 3]", "[2, 4]") + "  - {step: other, args: {n: null, all: null}}\n")
    assert steps(finished) == ["start", "end"]


@pytest.mark.parametrize(("numbers", "follows"), [([1, 2], ["odd", "even"]), ([2, 3], ["even"]), ([3], [])])
def test_each_item_takes_the_route_of_its_matching_rule(numbers: list[int], follows: list[str]) -> None:
    finished, _ = run(
        f"""
  - step: start
    loop: {{in: {numbers}, iterator: n}}
    tool: {{kind: noop, result: {{n: "{{{{ n }}}}"}}}}
    case:
      - {{when: "{{{{ event.name == 'call.done' and result.n == 1 }}}}", then: {{next: odd}}}}
      - {{when: "{{{{ event.name == 'call.done' and result.n == 2 }}}}", then: {{next: even}}}}
  - {{step: odd, tool: {{kind: noop}}}}
  - {{step: even, tool: {{kind: noop}}}}
  - {{step: end, tool: {{kind: noop}}}}
"""
    )
    assert steps(finished) == [*follows, "start", "end"]
    routes = [event for event in finished.events if event.type == "next.evaluated" and event.node == "start"]
    assert [event.meta.get("iteration") for event in routes] == [*range(len(numbers)), None]


@pytest.mark.parametrize("pick", [0, -1, 1])
def test_parallel_items_add_to_a_list_in_their_order(pick: int) -> None:
    workflow = """
  - step: start
    loop: {in: [1, 2, 3, 4], iterator: n, mode: parallel}
    tool: {kind: noop, result: "{{ [n, n * 10] }}"}
    case:
      - {when: "{{ event.name == 'step.enter' }}", then: {set: {firsts: [0]}}}
      - when: "{{ event.name == 'call.done' and n != 3 }}"
        then:
          - collect: {from: "{{ result[0] }}", into: firsts, mode: append}
          - collect: {from: result, into: both, mode: extend}
          - collect: {from: n, into: last, mode: replace}
    next: end
  - {step: end, tool: {kind: noop, result: "{{ [vars.firsts, vars.both, vars.last] }}"}}
"""
    finished = run_text(f"{HEAD}workflow:\n{workflow}", Activity(echo), pick=lambda _: pick)
    assert finished.finish.result == [[0, 1, 2, 4], [1, 10, 2, 20, 4, 40], 4]


def test_an_item_sees_what_the_items_before_it_added() -> None:
    workflow = """
  - step: start
    loop: {in: [1, 2, 3], iterator: n}
    tool: {kind: noop, result: "{{ ctx.seen | length }}"}
    case:
      - {when: "{{ event.name == 'call.done' }}", then: {collect: {from: "{{ n }}", into: seen}}}
    next: end
  - {step: end, tool: {kind: noop, result: "{{ start.results + [vars.seen] }}"}}
"""
    assert run(workflow, seen=[7])[0].finish.result == [1, 2, 3, [7, 1, 2, 3]]


def test_a_loops_results_come_with_their_counts() -> None:
    workflow = """
  - step: start
    loop: {in: [1, 2], iterator: n}
    tool: {kind: noop, result: "{{ n }}"}
    case: [{when: "{{ event.name == 'loop.done' and result.stats.success == 2 }}", then: {next: other}}]
"""
    finished, _ = run(workflow + DONE)
    assert steps(finished)[1] == "other"
