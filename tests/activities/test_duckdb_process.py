"""DuckDB runs in a process of its own: what that inherits, what limits it, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from noetl_activities.duckdb import process_pool as duckdb_process_pool
from noetl_activities.duckdb import tool as duckdb_tool
from noetl_activities.duckdb.process import DuckdbProcess
from noetl_activities.duckdb.process_pool import MAX_IDLE, pooled_processes
from noetl_activities.duckdb.wire import Failed, Find
from noetl_activities.errors import ConfigError
from noetl_activities.outcome import Outcome
from noetl_activities.outcome_ledger import LedgerResult, LedgerSlot
from noetl_activities.sinks import Entry, SinkRequest, store
from noetl_activities.tool import Request

from .conftest import Context

ENDLESS = "select count(*) from range(100000000000) a, range(100000) b"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That of execution 42."""
    monkeypatch.setenv("NOETL_HOME", str(tmp_path))
    folder_path = tmp_path / "duckdb" / "42"
    folder_path.mkdir(parents=True)
    return folder_path


@pytest.fixture
async def kept_processes() -> AsyncGenerator[None]:
    """A worker serves."""
    async with pooled_processes():
        yield


async def run(sql: str, execution: str = "42", **config: Any) -> Outcome:
    request_ = Request("duckdb", {"command": sql, **config}, execution_id=execution)
    return await duckdb_tool.TOOL.run(request_, Context())


def processes(of: int | None = None) -> list[int]:
    """The DuckDB processes that a process has started."""
    result = subprocess.run(["ps", "-Aww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=2) for line in result.stdout.splitlines()]
    parent = str(of or os.getpid())
    return [int(row[0]) for row in rows if row[1] == parent and "noetl_activities.duckdb.child" in row[-1]]


def proc(pid: int, name: str) -> Path:
    return Path("/proc") / str(pid) / name


async def until(condition: Callable[[], Any]) -> Any:
    """What the condition gives when it holds."""
    deadline = time.monotonic() + 30
    while not (outcome := await asyncio.to_thread(condition)):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    return outcome


# ---- what it inherits -----------------------------------------------------------------------------------------------


LOADED_MODULES = """
import sys
import noetl_activities.duckdb.tool, noetl_activities.duckdb.process_pool, noetl_activities.sinks.duckdb
print("_duckdb" in sys.modules or "duckdb" in sys.modules)
"""


def test_the_worker_does_not_even_load_duckdb() -> None:
    report = subprocess.run([sys.executable, "-c", LOADED_MODULES], capture_output=True, text=True, check=True)
    assert report.stdout == "False\n"


@LINUX
async def test_it_has_no_variable_and_no_file_of_the_worker(
    kept_processes: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NOETL_CREDENTIAL_PG", "canary")
    with (tmp_path / "credentials.yaml").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        await run("select 1")
        [pid] = processes()
        files = [str(path.readlink()) for path in proc(pid, "fd").iterdir()]
    assert {file.partition(":")[0] for file in files} <= {"/dev/null", "pipe"}
    names = [text.partition("=")[0] for text in proc(pid, "environ").read_text().split("\0")]
    assert set(names) <= {"", "PYTHONPATH", "LANG", "LC_ALL", "TZ"}


@pytest.mark.parametrize("module", ["json", "duckdb", "msgspec", "noetl_activities", "sitecustomize", "usercustomize"])
async def test_it_imports_nothing_from_the_folder_that_it_runs_in(folder: Path, module: str) -> None:
    (folder / f"{module}.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    assert (await run("select 1")).error is None
    assert not (folder / "ran").exists()


# ---- what limits it -------------------------------------------------------------------------------------------------


@LINUX
async def test_all_threads_of_the_process_are_sandboxed(kept_processes: None) -> None:
    running = asyncio.create_task(run(ENDLESS))
    [pid] = await until(processes)
    await until(lambda: len(list(proc(pid, "task").iterdir())) > 2)
    states = [(path / "status").read_text() for path in proc(pid, "task").iterdir()]
    running.cancel()
    await asyncio.wait([running])
    assert all("NoNewPrivs:\t1" in state and "Seccomp:\t2" in state for state in states)


@LINUX
async def test_its_memory_files_and_core_dumps_are_limited(
    kept_processes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_DUCKDB_MEMORY", "0.5")
    outcome = await run("select value from duckdb_settings() where name = 'memory_limit'")
    assert outcome.result["rows"] == [{"value": "512.0 MiB"}]
    [pid] = processes()
    rows = [line.split("  ") for line in proc(pid, "limits").read_text().splitlines()]
    limits = {row[0]: [text.strip() for text in row[1:] if text.strip()][:2] for row in rows}
    assert limits["Max core file size"] == ["0", "0"]
    assert limits["Max address space"] == [str((3 * 512 + 2048) * 1024**2)] * 2
    assert int(limits["Max open files"][1]) <= 1024
    assert int(limits["Max file size"][1]) <= 64 * 1024**3


@pytest.mark.parametrize(
    "sql",
    [
        "select list(range) from range(100000000)",
        "set threads = 1; select repeat('x', 2000000000)",
        "select [range(1000000) for i in range(1000)]",
    ],
)
async def test_a_call_over_its_memory_limit_fails_alone(
    kept_processes: None, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.setenv("NOETL_DUCKDB_MEMORY", "0.125")
    outcome = await run(sql)
    assert outcome.error is not None
    assert "Out of Memory" in outcome.error.message
    assert (await run("select 1 as a")).result["rows"] == [{"a": 1}]


async def test_a_query_over_its_memory_continues_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_DUCKDB_MEMORY", "0.0625")
    sql = "set threads = 1; create table t as select range as a, hash(range) as h from range(5000000) order by h"
    outcome = await run(sql)
    assert outcome.error is None, outcome.error


async def test_a_huge_number_of_threads_does_not_block_the_process(kept_processes: None) -> None:
    await run("set threads = 100000; select sum(range) from range(1000000)")
    assert (await run("select 1 as a")).result["rows"] == [{"a": 1}]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select repeat('x', 1000000) as a from range(40)", "the results are over 32 MB"),
        ("select [[] for i in range(2000)] as a from range(600)", "over 1,000,000 lists and mappings"),
        ("select range from range(100001)", "over 100,000 rows"),
        ("select repeat('x', 20000000); select repeat('x', 20000000)", "the results are over 32 MB"),
    ],
)
async def test_a_result_that_is_too_large_is_reported(kept_processes: None, sql: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        await run(sql)
    assert (await run("select 1 as a")).result["rows"] == [{"a": 1}]


# ---- one process a database -----------------------------------------------------------------------------------------


async def test_a_process_serves_one_call_after_the_other(kept_processes: None) -> None:
    await run("create table t as select 1 as a")
    first = processes()
    await store(
        SinkRequest("duckdb", {"table": "t", "data": [{"a": 2}]}, "append", Entry("42/k/sink0"), None, None), Context()
    )
    assert (await run("from t order by a")).result["rows"] == [{"a": 1}, {"a": 2}]
    assert processes() == first
    assert len(first) == 1


async def test_between_calls_the_file_is_free(kept_processes: None, folder: Path) -> None:
    await run("create table t as select 1 as a")
    with duckdb.connect(str(folder / "42.duckdb")) as connection:
        connection.execute("insert into t values (2)")
    assert (await run("select count(*) as n from t")).result["rows"] == [{"n": 2}]


async def test_idle_processes_are_few_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pooled_processes():
        for number in range(MAX_IDLE + 2):
            await run("select 1", str(number))
        assert len(processes()) == MAX_IDLE
        monkeypatch.setattr(duckdb_process_pool, "IDLE_SECONDS", 0.1)
        async with pooled_processes():
            await until(lambda: not processes())
        await run("select 1")
        assert len(processes()) == 1
    assert processes() == []


async def test_calls_of_a_database_run_side_by_side(kept_processes: None) -> None:
    running = asyncio.create_task(run(ENDLESS))
    await until(processes)
    for number in range(3):
        assert (await run(f"select {number} as a")).result["rows"] == [{"a": number}]
    assert len(processes()) == 1
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 30)
    assert (await run("select 3 as a")).result["rows"] == [{"a": 3}]


async def test_calls_in_memory_share_nothing(kept_processes: None) -> None:
    for _ in range(2):
        outcome = await run("create table t as select 1 as a; from t", database=":memory:")
        assert outcome.error is None


# ---- how it ends ----------------------------------------------------------------------------------------------------


async def test_a_cancelled_call_that_cannot_be_interrupted_ends_with_its_process(
    kept_processes: None, folder: Path
) -> None:
    os.mkfifo(folder / "pipe.csv")
    running = asyncio.create_task(run("from read_text('pipe.csv')"))
    writer = await until(lambda: writer_of(folder / "pipe.csv"))
    [pid] = processes()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 60)
    os.close(writer)
    assert pid not in processes()
    assert (await run("select 1 as a")).result["rows"] == [{"a": 1}]


def writer_of(pipe: Path) -> int | None:
    """A descriptor of the pipe, None as long as nobody reads it."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


async def run_with_ledger(sql: str, text: Callable[[Outcome], str] = lambda _: "{}") -> LedgerResult:
    request_ = Request("duckdb", {"command": sql}, execution_id="42")
    return await duckdb_tool.TOOL.run_with_ledger(request_, Context(), LedgerSlot("42/k", 1, text))


async def test_a_call_that_waits_for_a_concurrent_attempt_can_be_cancelled(kept_processes: None) -> None:
    rivals = [asyncio.create_task(run_with_ledger(f"create table t as {ENDLESS}")) for _ in range(2)]
    before = await until(processes)
    for rival in reversed(rivals):
        await asyncio.sleep(0.5)
        rival.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(rival, 30)
        assert processes() == before
    assert (await run("show tables")).result["rows"] == [{"name": "noetl_ledger"}]


async def test_an_outcome_that_cannot_be_kept_leaves_nothing(kept_processes: None) -> None:
    def text(_outcome: Outcome) -> str:
        raise LookupError("no text")

    with pytest.raises(LookupError):
        await run_with_ledger("create table t as select 1 as a", text)
    assert not (await run_with_ledger("create table t as select 2 as a")).is_reused
    assert (await run("from t")).result["rows"] == [{"a": 2}]


async def test_a_process_that_ends_fails_its_calls_and_is_replaced(kept_processes: None, folder: Path) -> None:
    await run("create table t as select 1 as a")
    running = asyncio.create_task(run(f"copy (select 1) to 'begun'; {ENDLESS}"))
    await until((folder / "begun").exists)
    [pid] = processes()
    os.kill(pid, signal.SIGKILL)
    outcome = await asyncio.wait_for(running, 30)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code, outcome.error.retryable) == ("connection", "ProcessEnded", True)
    assert outcome.error.message == "the process that runs DuckDB ended (killed by SIGKILL)"
    assert (await run("from t")).result["rows"] == [{"a": 1}]


WORKER = f"""
import asyncio
from noetl_activities.duckdb.tool import TOOL
from noetl_activities.tool import Request
asyncio.run(TOOL.run(Request("duckdb", {{"command": {ENDLESS!r}}}, execution_id="1"), None))
"""


async def test_it_ends_with_its_worker_in_the_middle_of_a_query() -> None:
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER)
    try:
        [pid] = await until(lambda: processes(worker.pid))
        await asyncio.sleep(0.5)
    finally:
        worker.kill()
        await worker.wait()
    await until(lambda: not _lives(pid))


def _lives(pid: int) -> bool:
    result = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return result.stdout.strip() not in ("", "Z")


@pytest.mark.parametrize(
    "answer", [b"", b"\0\0", b"\xff\xff\xff\xff", b"\0\0\0\2{]", b"\0\0\0\4null", b"\0\0\x27\x10" + b"[" * 10000]
)
async def test_a_process_that_answers_anything_else_is_ended(answer: bytes) -> None:
    then = "time.sleep(600)" if len(answer) >= 4 else ""
    program = f"import sys, time; sys.stdout.buffer.write({answer!r}); sys.stdout.flush(); {then}"
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program), stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    process = DuckdbProcess(child)
    reply = await asyncio.wait_for(process.ask(lambda number: Find(number, "k", 1)), 60)
    assert isinstance(reply, Failed)
    assert reply.code == "ProcessEnded"
    await process.close()
