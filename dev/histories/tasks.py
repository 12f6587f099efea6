"""Recordings of tasks: rules, repeated calls, pages and sinks."""

from __future__ import annotations

from dev.histories.recording import Recording

__all__ = ["TASKS"]

RETRY = """\
  - step: start
    tool:
      kind: noop
      message: %s
      spec: {policy: {rules: [{when: "{{ %s }}", then: {do: retry, %s}}%s]}}
"""
FAILED = "output.error.retryable"
JUMP = """\
  - step: start
    tool:
      - {name: poll, kind: noop, message: "{{ iter.n | default(0) }}"}
      - name: check
        kind: noop
        spec:
          policy:
            rules:
              - when: "{{ (iter.n | default(0)) < 2 }}"
                then: {do: jump, to: %s, set: {iter.n: "{{ (iter.n | default(0)) + 1 }}"}%s}
"""
PAGES = """\
  - step: start
    tool:
      kind: http
      url: http://api.test/items
      params: {page: "{{ iter.page | default(1) }}"}
      spec:
        policy:
          rules:
            - when: "{{ output.data.more }}"
              then:
                do: again
                attempts: 10
                set: {iter.page: "{{ output.data.page + 1 }}"}
                collect: {strategy: append, path: items}%s
"""
RULES = """\
  - step: start
    tool:
      - {name: first, kind: noop, message: broken, spec: {policy: {rules: [{else: {then: {do: continue}}}]}}}
      - {name: second, kind: noop, spec: {policy: {rules: [{else: {then: {do: %s}}}]}}}
      - {name: third, kind: noop}
"""
SINK = "sink: {tool: postgres, auth: pg, table: t, %sdata: {n: 1}}"
EACH, LAST = (SINK.removeprefix("sink: ") % level for level in ("level: attempt, ", ""))
SINKS = """\
  - step: start
    tool:
      - {name: first, kind: noop, message: attempt, %s, spec: {policy: {rules: [%s]}}}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: python, code: "result = 1"}}
"""
POLL = '{when: "{{ output.data.attempt < 3 }}", then: {do: retry, attempts: 5, delay: 0.05}}'
FAILS = "{when: \"{{ output.status == 'error' }}\", then: {do: fail}}"

TASKS = {
    "retry_constant": Recording(RETRY % ("busy", FAILED, "attempts: 4, delay: 0.05", "")),
    "retry_exponential": Recording(
        RETRY % ("busy", FAILED, "attempts: 4, backoff: exponential, delay: 0.05, max_delay: 1", "")
    ),
    "retry_on_ok": Recording(RETRY % ("attempt", "output.data.attempt < 3", "attempts: 5, delay: 0.05", "")),
    "retry_exhausted": Recording(RETRY % ("down", FAILED, "attempts: 2, delay: 0.05", ""), ends="failed"),
    "retry_exhausted_and_on": Recording(
        RETRY % ("down", FAILED, "attempts: 2", ", {else: {then: {do: continue}}}"), ends="failed"
    ),
    "retry_with_a_bad_number": Recording(RETRY % ("down", FAILED, "attempts: \"{{ 'many' }}\"", ""), ends="failed"),
    "rule_that_raises": Recording(RETRY % ("down", "1 / 0", "attempts: 2", ""), ends="failed"),
    "jump": Recording(JUMP % ("poll", "")),
    "jump_with_delay": Recording(JUMP % ("poll", ", delay: 0.05"), shows=("TIMER_FIRED",)),
    "jump_to_previous": Recording(JUMP % ("previous", "")),
    "rule_break": Recording(RULES % "break"),
    "rule_fail": Recording(RULES % "fail", ends="failed"),
    "pages": Recording(PAGES % ""),
    "pages_with_delay": Recording(PAGES % "\n                delay: 0.05", shows=("TIMER_FIRED",)),
    "pages_with_sinks": Recording(
        PAGES.replace("      spec:", f"      sink: [{EACH}, {LAST}]\n      spec:") % "",
    ),
    "timeout_of_a_task": Recording(
        "  - {step: start, tool: {kind: noop, message: wait, spec: {timeout: 0.3}}}\n", ends="failed"
    ),
    "sink": Recording(SINKS % (SINK % "", "")),
    "sink_of_attempts": Recording(SINKS % (SINK % "level: attempt, ", POLL)),
    "sink_replaces": Recording(SINKS % (SINK % "mode: replace, ", "")),
    "sink_fails": Recording(SINKS % (SINK.replace("auth: pg", "auth: nobody") % "", FAILS), ends="failed"),
}
