"""Recordings of playbooks in the older dialects."""

from __future__ import annotations

from dev.histories.recording import Recording

__all__ = ["OLDER"]

HEAD = "kind: Playbook\nmetadata: {name: replay, path: tests/replay}\n"
V1 = f"""apiVersion: noetl.io/v1
{HEAD}workload: {{job: "{{{{ job.uuid }}}}", numbers: [1, 2, 3]}}
"""
V1_CALLS = (
    V1
    + """workbook:
  - {name: work, type: python, code: ''}
workflow:
  - step: start
    call: {type: workbook, name: work, with: {n: 1}}
    next:
      - {when: "{{ work == 7 }}", then: other}
      - else: middle
  - {step: middle, type: workbook, task: work, next: end}
  - {step: other, type: python, code: '', next: middle}
  - step: end
"""
)
V1_ITERATOR = (
    V1
    + """workflow:
  - {step: start, next: [{step: squares, data: {numbers: "{{ workload.numbers }}"}}]}
  - step: squares
    type: iterator
    collection: "{{ numbers }}"
    element: n
    mode: async
    concurrency: 2
    where: "{{ n > 1 }}"
    task: {name: square, type: python, data: {value: "{{ n }}"}, code: "def main(value): return value"}
    next: end
  - {step: end, type: end, save: {storage: event_log, data: {count: "{{ squares.count }}"}}}
"""
)
LEGACY_PAGES = f"""apiVersion: noetl.io/v1
{HEAD}workflow:
  - step: start
    tool: http
    url: http://api.test/items
    params: {{page: 1}}
    loop: {{collection: [bern, jena], element: city, mode: sequential}}
    retry:
      on_error: {{when: "{{{{ error.kind != 'auth' }}}}", max_attempts: 3, initial_delay: 0.1}}
      on_success:
        while: "{{{{ response.more }}}}"
        max_attempts: 5
        next_call: {{params: {{page: "{{{{ response.page + 1 }}}}"}}}}
        collect: {{strategy: append, path: items, into: pages}}
        per_iteration: {{sink: {{tool: postgres, auth: pg, table: t, data: {{n: "{{{{ response.page }}}}"}}}}}}
    sink: {{tool: postgres, auth: pg, table: t, data: {{n: 5}}}}
    next: [{{step: middle}}, {{step: other}}]
  - {{step: middle, tool: noop, next: [{{step: end}}]}}
  - {{step: other, tool: noop}}
  - step: end
"""
CASE = f"""apiVersion: noetl.io/v2
{HEAD}workflow:
  - step: start
    tool: {{kind: http, url: "http://api.test/items", params: {{page: %d}}}}
    case:
      - when: "{{{{ event.name == 'call.error' }}}}"
        then: {{retry: {{max_attempts: 3, initial_delay: 0.1}}}}
      - when: "{{{{ event.name == 'call.done' and response.data.flag }}}}"
        then:
          - set: {{seen: "{{{{ response.data.page }}}}"}}
          - next: [{{step: other}}]
      - when: "{{{{ event.name == 'call.done' and response.data.page > 8 }}}}"
        then: {{fail: too many}}
  - step: other
    tool: {{kind: noop}}
    case:
      - {{when: "{{{{ event.name == 'step.exit' }}}}", then: {{next: end}}}}
  - {{step: end, tool: {{kind: noop}}}}
"""
CASE_PAGES = f"""apiVersion: noetl.io/v2
{HEAD}workflow:
  - step: start
    loop: {{in: [1, 2], iterator: site}}
    tool: {{kind: http, url: "http://api.test/items", params: {{page: 1}}}}
    case:
      - when: "{{{{ event.name == 'call.done' and response.data.more }}}}"
        then:
          - retry: {{max_attempts: 10, args: {{params: {{page: "{{{{ response.data.page + 1 }}}}"}}}}}}
      - when: "{{{{ event.name == 'call.done' and not response.data.more }}}}"
        then:
          - save_last: {{tool: {{kind: noop}}}}
      - when: "{{{{ event.name == 'loop.done' }}}}"
        then: {{next: [{{step: end}}]}}
  - {{step: end, tool: {{kind: noop}}}}
"""

OLDER = {
    "v1_calls": Recording(V1_CALLS),
    "v1_iterator": Recording(V1_ITERATOR),
    "legacy_pages": Recording(LEGACY_PAGES),
    "case_routes": Recording(CASE % 1),
    "case_fails": Recording(CASE % 9, ends="failed"),
    "case_pages": Recording(CASE_PAGES),
}
