"""Gauges of open runs for Prometheus, from the event log."""

from __future__ import annotations

import pytest

from noetl_temporal.mirror.gauges import Gauges
from noetl_temporal.mirror.path_labels import OTHER_PATHS, PathLabels
from noetl_temporal.mirror.store import Store
from tests.mirror.built import START, begin, playbook
from tests.mirror.story import Story


async def _samples(gauges: Gauges) -> list[str]:
    return [line for line in (await gauges.text()).splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("is_resolved", [False, True])
async def test_an_incident_is_counted_until_it_is_over(store: Store, is_resolved: bool) -> None:
    history = playbook(1)
    begin(history, Story(START))
    history.task_fails("WORKFLOW_WORKER_UNHANDLED_FAILURE", "no such key")
    if is_resolved:
        history.task(attempt=2)
    await store.ingest(history.run, history.events)
    expected = ['noetl_open_runs{path="tests/built",status="running"} 1', "noetl_unread_histories 0"]
    if not is_resolved:
        expected.insert(1, 'noetl_open_incidents{path="tests/built"} 1')
    assert await _samples(Gauges(store.pool, history.run.namespace)) == expected
    assert await _samples(Gauges(store.pool, "another")) == ["noetl_unread_histories 0"]


async def test_further_paths_share_a_label_and_their_counts_are_added(store: Store) -> None:
    for number in (1, 2):
        history = playbook(number)
        begin(history, Story(START))
        await store.ingest(history.run, history.events)
    gauges = Gauges(store.pool, history.run.namespace, PathLabels(limit=0))
    assert await _samples(gauges) == [
        f'noetl_open_runs{{path="{OTHER_PATHS}",status="running"}} 2',
        "noetl_unread_histories 0",
    ]


async def test_a_history_that_cannot_be_read_is_counted(store: Store) -> None:
    run = playbook(1).run
    await store.note_problem(run, "gibberish")
    assert await _samples(Gauges(store.pool, run.namespace)) == ["noetl_unread_histories 1"]
