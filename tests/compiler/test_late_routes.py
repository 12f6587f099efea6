"""What a rule about one item of a loop passes on, when its way is taken after the whole loop (NT411)."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_text
from noetl_compiler.graph import Json

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: late, path: test/late}}
workload: {{cities: [a]}}
workflow:
  - step: start
    loop: {{in: "{{{{ workload.cities }}}}", iterator: city}}
    tool: {{kind: noop}}
    case:
      - when: "{{{{ event.name == 'step.exit' and response.status == 200 }}}}"
        then:
          - next: [{{step: told, args: {args}}}]
  - step: told
    tool: {{kind: noop}}
    next: end
"""
NOTE = "((ctx._chosen | default({})).start | default({})).args['0']"


@pytest.mark.parametrize(
    ("args", "passed", "places"),
    [
        ("{name: '{{ city }}'}", {"name": f"{{{{ {NOTE}['name'] }}}}"}, {"/name"}),
        ("{a/b: '{{ city }}'}", {"a/b": f"{{{{ {NOTE}['a/b'] }}}}"}, {"/a~1b"}),
        ("'{{ workload.first }}'", "{{ workload.first }}", {""}),  # no names to note: read when the loop is over
    ],
)
def test_what_is_passed_on(args: str, passed: Json, places: set[str]) -> None:
    graph = compile_text(PLAYBOOK.format(args=args)).graph
    assert graph is not None
    (given,) = [one.value for arc in graph.steps["start"].route.arcs if arc.to == "told" for one in arc.set]
    assert (given.data, set(given.templates)) == (passed, places)
