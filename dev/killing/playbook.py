"""The parts that all killed playbooks share, and the loop of HTTP calls with a sink."""

from __future__ import annotations

__all__ = ["plain_loop", "playbook", "tool_for_item"]

HEAD = """apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: killing, path: dev/killing}
workload: {api: "", items: 2000, seconds: 0.3}
workflow:
  - step: start
    tool:
      kind: postgres
      auth: pg_local
      command: |
        SETUP
    next: {arcs: [{step: each}]}
  - step: each
LOOP
"""

ROWS = "CREATE TABLE IF NOT EXISTS killed (run bigint, item int, at timestamptz DEFAULT now())"

CALL = """    tool:
      kind: http
      url: "{{ workload.api }}"
      params: {label: "RUN-ITEM", delay_seconds: "{{ workload.seconds }}"}
      SINK
      spec:
        policy:
          rules:
            - when: "{{ output.status == 'error' and output.error.kind in ['connection', 'sql_connection'] }}"
              then: {do: retry, attempts: 40, delay: 1}
            - when: "{{ output.status == 'error' }}"
              then: {do: fail}
"""

SINK = 'sink: {tool: postgres, auth: pg_local, table: killed, data: {run: "RUN", item: "ITEM"}}'

FRAME = ", frame: {max_rows: 400, max_seconds: 30, row_concurrency: 10}"


def playbook(setup: str, loop: str) -> str:
    """Return a playbook with a step that runs the SQL of ``setup``, and the step ``each`` with this loop and tool."""
    return HEAD.replace("SETUP", setup.strip().replace("\n", "\n        ")).replace("LOOP", loop.rstrip())


def tool_for_item(run: str, item: str, *, stores: bool = True) -> str:
    """Return the tool that calls the service for an item of a run (both are templates) and ``stores`` a row."""
    text = CALL.replace("SINK", SINK) if stores else CALL.replace("      SINK\n", "")
    return text.replace("RUN", run).replace("ITEM", item)


def plain_loop(*, framed: bool) -> str:
    """Return a loop over a list, whose items run in frames if it is ``framed``."""
    frame = FRAME if framed else ""
    items = "{{ range(workload['items']) | list }}"
    loop = f'    loop: {{in: "{items}", iterator: item, spec: {{mode: parallel, max_in_flight: 20{frame}}}}}\n'
    return playbook(ROWS, loop + tool_for_item("{{ execution_id }}", "{{ iter.item }}"))
