"""Recordings of steps: the routes between them, the values they set, and their failures."""

from __future__ import annotations

from dev.histories.recording import Recording

__all__ = ["STEPS"]

FAN_OUT = """\
  - {step: start, tool: {kind: noop}, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
  - {step: a, tool: {kind: noop, message: slow}, next: {arcs: [{step: join}]}}
  - {step: b, tool: {kind: noop}, next: {arcs: [{step: join}]}}
  - {step: join, spec: {join: %s}, tool: {kind: noop}}
"""
ROUTING = """\
  - step: start
    tool: {kind: noop, message: 7}
    next:
      spec: {mode: %s}
      arcs:
        - {step: none, when: "{{ output.data > 9 }}"}
        - {step: some, when: "{{ output.data > 5 }}"}
        - {step: more, when: "{{ output.data > 6 }}"}
  - {step: none, tool: {kind: noop}}
  - {step: some, tool: {kind: noop}}
  - {step: more, tool: {kind: noop}}
"""
ROUNDS = """\
  - step: start
    tool: {kind: noop}
    set: {ctx.n: "{{ (ctx.n | default(0)) + 1 }}"}
    next: {arcs: [{step: start, when: "{{ ctx.n < 3 }}"}, {step: after}]}
  - {step: after, tool: {kind: noop, message: "{{ ctx.n }}"}}
"""
ADMISSION = """\
  - {step: start, tool: {kind: noop}, next: {arcs: [{step: denied}]}}
  - step: denied
    spec: {policy: {admit: {rules: [{when: "{{ workload.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: {kind: noop}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: noop}}
"""
SETS = """\
  - step: start
    tool: {kind: noop, message: 2, set: {ctx.task: "{{ output.data }}"}}
    set: {ctx.deep.er: "{{ output.data * 2 }}"}
    next: {arcs: [{step: after, set: {ctx.way: "{{ ctx.deep.er }}"}}]}
  - {step: after, tool: {kind: noop, message: "{{ [ctx.task, ctx.deep.er, ctx.way, workload.given] }}"}}
"""
HANDLED = """\
  - step: start
    tool: {kind: noop, message: broken}
    next: {arcs: [{step: repair, when: "{{ event.name == 'step.failed' }}"}, {step: never}]}
  - {step: repair, tool: {kind: noop, message: repaired}}
  - {step: never, tool: {kind: noop}}
"""
BRANCHES = """\
  - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: bad}, {step: good}]}}
  - {step: bad, tool: {kind: noop, message: broken}}
  - {step: good, tool: [{name: one, kind: noop, message: %s}, {name: two, kind: noop}]}
"""
TIMED_OUT = """\
  - step: start
    spec: {timeout: 0.4}
    tool: {kind: noop, message: wait}
    next: {arcs: [{step: repair, when: "{{ event.name == 'step.failed' and error.kind == 'timeout' }}"}]}
  - {step: repair, tool: {kind: noop}}
"""
NAMES = """\
  - {step: c/1, loop: {in: [1], iterator: item}, tool: {kind: noop}, next: {arcs: [{step: c#1/0}]}}
  - {step: c#1/0, loop: {in: [1], iterator: item}, tool: {kind: noop}, next: {arcs: [{step: "a:b:1 ünï😀"}]}}
  - {step: "a:b:1 ünï😀", tool: {kind: noop}, next: {arcs: [{step: LONG}]}}
  - {step: LONG, tool: {kind: noop}, loop: {in: [1], iterator: item}}
"""

STEPS = {
    "sequence": Recording(
        """\
  - {step: start, tool: {kind: noop, message: 1}, set: {ctx.n: "{{ output.data }}"}, next: {arcs: [{step: b}]}}
  - {step: b, tool: {kind: noop, message: "{{ ctx.n }}"}}
"""
    ),
    "scheduled": Recording(
        """\
  - {step: start, tool: {kind: noop, message: "{{ execution_id }}"}, next: {arcs: [{step: b}]}}
  - {step: b, loop: {in: [1, 2], iterator: n}, tool: {kind: noop, message: "{{ n }}"}}
""",
        shows=("UPSERT_WORKFLOW_SEARCH_ATTRIBUTES", "CHILD_WORKFLOW_EXECUTION_COMPLETED"),
        scheduled=True,
    ),
    "no_call": Recording("  - {step: start, next: {arcs: [{step: after}]}}\n  - {step: after}\n"),
    "join_wave": Recording(FAN_OUT % "wave"),
    "join_any": Recording(FAN_OUT % "any"),
    "join_each": Recording(FAN_OUT % "each"),
    "exclusive": Recording(ROUTING % "exclusive"),
    "inclusive": Recording(ROUTING % "inclusive"),
    "loop_back": Recording(ROUNDS),
    "admission": Recording(ADMISSION, head="workload: {go: false}\n"),
    "sets": Recording(SETS, head="workload: {given: {a: [1, 2]}}\n"),
    "failure": Recording(
        "  - {step: start, tool: {kind: noop, message: broken}, next: {arcs: [{step: never}]}}\n"
        "  - {step: never, tool: {kind: noop}}\n",
        ends="failed",
    ),
    "failure_handled": Recording(HANDLED),
    "failure_of_a_template": Recording(
        '  - {step: start, tool: {kind: noop, message: "{{ nobody.knows }}"}}\n', ends="failed"
    ),
    "failure_of_a_route": Recording(
        '  - {step: start, tool: {kind: noop}, next: {arcs: [{step: b, when: "{{ 1 / 0 > 0 }}"}]}}\n'
        "  - {step: b, tool: {kind: noop}}\n",
        ends="failed",
    ),
    "failure_of_the_workload": Recording(
        "  - {step: start, tool: {kind: noop}}\n", head='workload: {n: "{{ 1 / 0 }}"}\n', ends="failed"
    ),
    "failure_of_a_large_call": Recording(
        "  - {step: start, tool: {kind: noop, message: \"{{ ['x' * 900000, 'y' * 900000] }}\"}}\n", ends="failed"
    ),
    "playbook_best_effort": Recording(BRANCHES % "slow", ends="failed"),
    "playbook_fail_fast": Recording(
        BRANCHES % "wait",
        head="executor: {spec: {policy: {failure: {mode: fail_fast}}}}\n",
        ends="failed",
        shows=("ACTIVITY_TASK_CANCEL_REQUESTED",),
    ),
    "timeout_of_a_step": Recording(TIMED_OUT, shows=("TIMER_FIRED", "ACTIVITY_TASK_CANCEL_REQUESTED")),
    "timeout_of_a_playbook": Recording(
        "  - {step: start, tool: {kind: noop, message: wait}}\n  - {step: end, tool: {kind: noop, message: clean}}\n",
        head="executor: {spec: {timeout: 0.5s}}\n",
        ends="failed",
        shows=("TIMER_FIRED", "ACTIVITY_TASK_CANCEL_REQUESTED"),
    ),
    "timer_not_needed": Recording(
        "  - {step: start, spec: {timeout: 1h}, tool: {kind: noop}}\n",
        head="executor: {spec: {timeout: 1h}}\n",
        shows=("TIMER_CANCELED",),
    ),
    "odd_names": Recording(NAMES.replace("LONG", "x" * 300)),
    "long_path": Recording(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: replay, path: "
        + "p" * 300
        + "}\nworkflow:\n  - {step: start, loop: {in: [1], iterator: item}, tool: {kind: noop}}\n"
    ),
}
