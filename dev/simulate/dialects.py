"""Random playbooks of the older dialects: v1, legacy and case, from a few shapes with random values."""

from __future__ import annotations

import random

__all__ = ["older_playbook"]

_HEAD = "kind: Playbook\nmetadata: {name: sim, path: sim/older}\nworkload: {go: true}\n"

_LEGACY = """apiVersion: noetl.io/v1
{head}workflow:
  - step: start
    tool: http
    url: http://api.test/items
    params: {{page: 1}}
    {loop}
    retry:
      on_error: {{when: "{{{{ error.kind != 'auth' }}}}", max_attempts: {attempts}, initial_delay: {delay}}}
      on_success:
        while: "{{{{ response.more }}}}"
        max_attempts: {pages}
        next_call: {{params: {{page: "{{{{ (response.n | default(0)) + 1 }}}}"}}}}
        collect: {{strategy: append, path: items, into: pages}}
    {sink}
    next: [{{step: middle}}, {{step: other}}]
  - {{step: middle, tool: noop, next: [{{step: end}}]}}
  - {{step: other, tool: noop}}
  - step: end
"""
_CASE = """apiVersion: noetl.io/v2
{head}workflow:
  - step: start
    tool: {{kind: http, url: "http://api.test/items", params: {{page: 1}}}}
    {loop}
    case:
      - when: "{{{{ event.name == 'call.error' }}}}"
        then: {{retry: {{max_attempts: {attempts}, initial_delay: {delay}}}}}
      - when: "{{{{ event.name == 'call.done' and response.flag }}}}"
        then:
          - set: {{seen: "{{{{ response.n }}}}"}}
          - next: [{{step: other}}]
      - when: "{{{{ event.name == 'call.done' and response.n > 80 }}}}"
        then: {{fail: too many}}
      - when: "{{{{ event.name == 'call.done' }}}}"
        then: {{next: [{{step: middle}}]}}
  - {{step: middle, tool: {{kind: noop}}}}
  - step: other
    tool: {{kind: noop}}
    case:
      - {{when: "{{{{ event.name == 'step.exit' }}}}", then: {{next: middle}}}}
  - {{step: end, tool: {{kind: noop}}}}
"""
_V1 = """apiVersion: noetl.io/v1
{head}workbook:
  - {{name: work, type: python, code: ''}}
workflow:
  - step: start
    call: {{type: workbook, name: work, with: {{n: 1}}}}
    next:
      - when: "{{{{ work.flag }}}}"
        then: other
      - else: middle
  - {{step: middle, type: workbook, task: work, next: end}}
  - {{step: other, type: python, code: '', next: middle}}
  - step: end
"""
_LOOPS = ("", "loop: {collection: [1, 2, 3], element: item, mode: sequential}", "loop: {in: [1, 2], iterator: item}")
_SINKS = ("", 'sink: {tool: postgres, auth: pg, table: t, data: {n: "{{ result }}"}}')


def older_playbook(source: random.Random) -> str:
    """Return the text of a random playbook in an older dialect."""
    return source.choice((_LEGACY, _CASE, _V1)).format(
        head=_HEAD,
        loop=source.choice(_LOOPS),
        sink=source.choice(_SINKS),
        attempts=source.randint(1, 4),
        delay=source.choice((0, 0.5, 2)),
        pages=source.randint(1, 5),
    )
