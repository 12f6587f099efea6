"""The playbooks whose runs are killed at: what is the same for all of them, and the loop of HTTP calls with a sink."""

from __future__ import annotations

__all__ = ["calls_item", "plain_loop", "playbook"]

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
    """A step that runs the SQL of ``setup``, then the step ``each`` of this ``loop`` with its tool."""
    return HEAD.replace("SETUP", setup.strip().replace("\n", "\n        ")).replace("LOOP", loop.rstrip())


def calls_item(run: str, item: str, *, stores: bool = True) -> str:
    """The tool that calls the service for an item of a run, both as templates give them, and ``stores`` a row."""
    text = CALL.replace("SINK", SINK) if stores else CALL.replace("      SINK\n", "")
    return text.replace("RUN", run).replace("ITEM", item)


def plain_loop(*, framed: bool) -> str:
    """Over a list, whose items run in frames where it is ``framed``."""
    frame = FRAME if framed else ""
    items = "{{ range(workload['items']) | list }}"
    loop = f'    loop: {{in: "{items}", iterator: item, spec: {{mode: parallel, max_in_flight: 20{frame}}}}}\n'
    return playbook(ROWS, loop + calls_item("{{ execution_id }}", "{{ iter.item }}"))
