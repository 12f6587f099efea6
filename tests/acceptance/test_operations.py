"""Operating a worker: health, metrics, and a log for programs."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import httpx
import pytest

from noetl_temporal.stack.process import free_port
from tests.acceptance.processes import wait_until
from tests.acceptance.site import Site

pytestmark = pytest.mark.stack

PLAYBOOK = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: counted, path: tests/operations}
workload: {seconds: 0, wrong: true}
workflow:
  - step: work
    tool:
      kind: python
      input: {seconds: "{{ workload.seconds }}", wrong: "{{ workload.wrong }}"}
      code: |
        import time
        time.sleep(seconds)
        print("called")
        result = 1 / (0 if wrong else 1)
      spec:
        policy:
          rules:
            - when: "{{ output.status == 'error' }}"
              then: {do: retry, attempts: 2, delay: 0.01}
"""


class WatchedWorker:
    """A worker or mirror of a cluster, and what it answers."""

    def __init__(self, site: Site, *command: str) -> None:
        self.site, self.port = site, free_port()
        self.process = site.start(*command, "--health", f"127.0.0.1:{self.port}")

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=30)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.process.communicate()
        try:
            return self.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def value(self, name: str, **labels: str) -> float:
        """Of a metric, summed over all other labels."""
        total = 0.0
        for line in self.get("/metrics").text.splitlines():
            match = re.fullmatch(rf"{name}{{(.*)}} (\S+)", line)
            if match and all(f'{key}="{value}"' in match[1] for key, value in labels.items()):
                total += float(match[2])
        return total


@pytest.fixture
def watched_worker(cluster: None, bare: Site) -> Iterator[WatchedWorker]:
    """The only worker of the cluster."""
    del cluster
    with watching(WatchedWorker(bare, "worker", "--log-format", "json")) as worker:
        yield worker


@contextmanager
def watching(process: WatchedWorker) -> Generator[WatchedWorker]:
    try:
        assert wait_until(process.is_ready)
        yield process
    finally:
        if process.process.poll() is None:
            process.process.kill()
        process.process.communicate()


def test_calls_and_runs_are_counted(watched_worker: WatchedWorker, bare: Site) -> None:
    playbook = str(bare.write(PLAYBOOK))
    assert bare.noetl("run", playbook).returncode == 1
    assert bare.noetl("run", playbook, "--set", "wrong=false").returncode == 0
    assert watched_worker.value("noetl_calls_total", tool="python", status="error", kind="exception") == 1
    assert watched_worker.value("noetl_calls_total", tool="python", status="ok") == 1
    assert watched_worker.value("noetl_retries_total", tool="python") == 1
    assert watched_worker.value("noetl_attempt_seconds_count", tool="python") == 3
    assert watched_worker.value("noetl_queue_seconds_count", tool="python") == 3
    for status in ("failed", "completed"):
        assert watched_worker.value("noetl_runs_total", path="tests/operations", status=status) == 1
    assert watched_worker.value("temporal_workflow_completed_total") == 1  # the SDK's own are there as well
    assert "service_name" not in watched_worker.get("/metrics").text  # it would be that of the SDK, the same for all


def test_the_health_endpoints_respond(watched_worker: WatchedWorker) -> None:
    assert watched_worker.get("/healthz").json() == {"status": "alive"}
    assert watched_worker.get("/readyz").json() == {"status": "ready", "serves": "workflows and all tools"}
    unknown = watched_worker.get("/")
    assert (unknown.status_code, unknown.json()["paths"]) == (404, ["/healthz", "/readyz", "/metrics"])


def test_a_call_in_progress_ends_before_the_worker_does(
    watched_worker: WatchedWorker, bare: Site, tmp_path: Path
) -> None:
    """It is not ready any more then, and the call needs no other attempt."""
    playbook = str(bare.write(PLAYBOOK))
    outcomes: list[subprocess.CompletedProcess[str]] = []
    settings = ("--set", "wrong=false", "--set", "seconds=5", "--json")
    run = Thread(target=lambda: outcomes.append(bare.noetl("run", playbook, *settings)))
    run.start()
    assert wait_until(
        lambda: watched_worker.value("temporal_worker_task_slots_used", worker_type="ActivityWorker") >= 1
    )
    watched_worker.process.send_signal(signal.SIGTERM)
    assert wait_until(lambda: watched_worker.get("/readyz").json() == {"status": "stopping"})
    assert watched_worker.get("/healthz").status_code == 200
    assert watched_worker.process.wait(120) == 0
    run.join()
    assert json.loads(outcomes[0].stdout)["status"] == "completed", outcomes


def test_the_log_is_json_with_ids(watched_worker: WatchedWorker, bare: Site) -> None:
    ran = json.loads(bare.noetl("run", str(bare.write(PLAYBOOK)), "--set", "wrong=false", "--json").stdout)
    watched_worker.process.send_signal(signal.SIGTERM)
    _, log = watched_worker.process.communicate(timeout=60)
    [line] = [record for text in log.splitlines() if "printed" in (record := json.loads(text))["message"]]
    assert (line["execution_id"], line["step"], line["attempt"]) == (ran["execution_id"], "work", 1)
    assert (line["level"], line["message"].splitlines()[1:]) == ("info", ["  | called"])


HELD = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: held, path: tests/operations/held}
workflow:
  - step: work
    on_failure: hold
    tool: {kind: python, code: "result = 1 / 0"}
"""


def test_a_mirror_counts_open_runs(watched_worker: WatchedWorker, bare: Site) -> None:
    """Until their end, whichever process started or ends them."""
    with watching(WatchedWorker(bare, "mirror")) as mirror:
        held = json.loads(bare.noetl("submit", str(bare.write(HELD)), "--json").stdout)["execution_id"]
        path = "tests/operations/held"
        assert wait_until(lambda: mirror.value("noetl_held_steps", path=path) == 1)
        assert mirror.value("noetl_open_runs", path=path, status="paused") == 1
        assert mirror.value("noetl_open_incidents") == 0
        assert "noetl_unread_histories 0\n" in mirror.get("/metrics").text
        assert mirror.get("/readyz").json() == {"status": "ready", "serves": "the event log"}
        assert bare.noetl("skip", held, "work").returncode == 0
        assert wait_until(lambda: mirror.value("noetl_open_runs", path=path) == 0)
        assert mirror.value("noetl_held_steps", path=path) == 0
        mirror.process.send_signal(signal.SIGTERM)
        assert mirror.process.wait(60) == 0
    assert watched_worker.process.poll() is None


def test_a_health_address_in_use_is_reported(watched_worker: WatchedWorker, bare: Site) -> None:
    done = bare.noetl("worker", "--health", f"127.0.0.1:{watched_worker.port}")
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{watched_worker.port}: Address already in use" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--concurrency", "http"], "'http' is not TOOL=N, such as http=20"),
        (["--concurrency", "http=0"], "'http=0' is not TOOL=N, such as http=20"),
        (["--concurrency", "http=1.5"], "--concurrency takes whole numbers from 1"),
        (["--rate", "http=nan"], "'http=nan' is not TOOL=N, such as http=20"),
        (["--rate", "htp=1"], "no tool 'htp'"),
        (["--health", "localhost"], "'localhost' is not HOST:PORT, such as 127.0.0.1:9100"),
        (["--health", "127.0.0.1:99999"], "is not HOST:PORT"),
    ],
)
def test_invalid_options_are_refused(bare: Site, options: list[str], message: str) -> None:
    done = bare.noetl("worker", *options)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


TIMED = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: timed, path: tests/operations/timed}
workload: {folder: "", at_once: 1}
workflow:
  - step: work
    loop: {in: [1, 2, 3, 4], iterator: n, spec: {mode: parallel}}
    tool:
      kind: python
      input: {folder: "{{ workload.folder }}", at_once: "{{ workload.at_once }}", n: "{{ iter.n }}"}
      code: |
        import os, time
        began = time.monotonic()
        open(f"{folder}/{n}", "w").close()
        while len(os.listdir(folder)) < at_once:
            time.sleep(0.01)
        time.sleep(0.3)
        result = [began, time.monotonic()]
"""


@pytest.mark.parametrize("slots", ["fixed", "auto"])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_the_concurrency_limit_of_a_tool(
    cluster: None, bare: Site, monkeypatch: pytest.MonkeyPatch, task_folder: Path, concurrency: int, slots: str
) -> None:
    """Where several calls may run, the first waits for the second."""
    del cluster
    monkeypatch.setenv("NOETL_TOOL_QUEUES", "python")  # which then has a queue of its own
    limits = "--concurrency", f"python={concurrency}", "--slots", slots, "--rate", "python=50"
    worker = bare.start("worker", *limits, "--autoscale")
    try:
        values = "--set", f"folder={task_folder}", "--set", f"at_once={min(concurrency, 2)}"
        ran = bare.noetl("run", str(bare.write(TIMED)), "--json", *values)
        times = sorted(json.loads(ran.stdout)["result"]["results"])
        overlap = [later[0] < earlier[1] for earlier, later in itertools.pairwise(times)]
        assert any(overlap) == (concurrency > 1), (times, ran.stderr)
    finally:
        worker.terminate()
        worker.communicate(timeout=60)
    assert worker.returncode == 0


def test_slots_by_load_look_at_the_machine(cluster: None, bare: Site) -> None:
    """Those of calls alone: workflow tasks are short."""
    del cluster
    with watching(WatchedWorker(bare, "worker", "--slots", "auto")) as worker:
        assert bare.noetl("run", str(bare.write(PLAYBOOK)), "--set", "wrong=false").returncode == 0
        assert wait_until(lambda: "temporal_resource_slots_mem_usage" in worker.get("/metrics").text)
        assert worker.value("temporal_worker_task_slots_available", worker_type="WorkflowWorker") > 0
