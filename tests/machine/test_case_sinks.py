"""A rule of a v1 ``case`` stores the result of its step (whitepaper 8.2, sinks at case level)."""

from __future__ import annotations

import pytest

from .driver import error, run_text

HEAD = "apiVersion: noetl.io/v1\nkind: Playbook\nname: x\npath: x\nworkload: {}\nworkflow:\n"
SINK = "sink: {tool: duckdb, table: t, values: {n: '{{ start.n }}', all: '{{ result }}'}}"


@pytest.mark.parametrize(("n", "steps"), [(7, ["start", "start/sink_1", "big", "end"]), (3, ["start", "small", "end"])])
def test_only_the_rule_that_matches_stores(n: int, steps: list[str]) -> None:
    text = f"""
  - step: start
    type: python
    code: ""
    case:
      - when: "{{{{ start.n > 5 }}}}"
        then: [{{step: big}}]
        {SINK}
      - else: [{{step: small}}]
  - {{step: big, type: noop}}
  - {{step: small, type: noop}}
"""
    run = run_text(HEAD + text, lambda call: {"n": n} if call.step == "start" else call.config.get("result"))
    assert run.finish.status == "completed"
    assert [event.node for event in run.of("step.started")] == steps
    sinks = [sink for call in run.calls for sink in call.sinks]
    assert len(sinks) == (n > 5)
    if sinks:
        [call] = [call for call in run.calls if call.sinks]
        assert call.config["result"] == {"n": 7}
        assert call.scope == {"start": {"n": 7}}


def test_a_rule_may_do_nothing_but_store() -> None:
    text = f"""
  - step: start
    type: python
    code: ""
    case:
      - when: "{{{{ last_error }}}}"
        sink: {{tool: duckdb, table: failures, values: {{why: '{{{{ start.error.message }}}}'}}}}
      - else: end
        {SINK}
"""
    run = run_text(HEAD + text, lambda call: error("late") if call.step == "start" else 1)
    assert [event.node for event in run.of("step.started")] == ["start", "start/sink_1", "end"]
    assert run.calls[-1].scope == {"start": {"error": {"message": "late"}}}
