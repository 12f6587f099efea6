"""A signal goes to a process that is known to be the stack's, whatever stands in the note of its processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl_temporal.stack.files import UnsafeFileError, write_atomically
from noetl_temporal.stack.identity import Identity, identity
from noetl_temporal.stack.leftovers import end_leftovers, end_processes_in, record_processes, recorded_processes
from noetl_temporal.stack.process import Server, start, stop
from tests.acceptance.processes import wait_until

HAS_PROC = pytest.mark.skipif(not Path("/proc/self").exists(), reason="the system does not show folders of processes")


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What would be sent. Nothing is: a guard that fails here would end the machine that tests it."""
    sent_signals: list[tuple[str, int, int]] = []

    def kill(pid: int, signal_: int) -> None:
        sent_signals.append(("kill", pid, signal_))

    def killpg(pid: int, signal_: int) -> None:
        sent_signals.append(("killpg", pid, signal_))

    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(os, "killpg", killpg)
    return sent_signals


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


def note_of(process: subprocess.Popen[bytes], **changed_fields: object) -> list[object]:
    started = identity(process.pid)
    assert started is not None
    record = {
        "pid": process.pid,
        "marker": "sleep 600",
        "is_service": False,
        "uid": started.uid,
        "started": started.start_time,
    }
    return list((record | changed_fields).values())


def write_notes(folder: Path, *notes: object) -> Path:
    file = folder / "servers.json"
    write_atomically(file, json.dumps(notes))
    return file


@pytest.mark.parametrize(
    "note",
    [
        [-1, "", True],
        [-1, "", True, 0, "1"],
        [-1, "sleep", True, 0, "1"],
        [0, "sleep", True, 0, "1"],
        [1, "init", False, 0, "1"],
        [1, "/", False, 0, "1"],
        ["2", "sleep", True, 0, "1"],
        [2**70, "sleep", True, 0, "1"],
        [2, "", True, 0, "1"],
        [2],
        {},
        None,
    ],
)
def test_a_forged_process_record_signals_no_process(
    note: object, tmp_path: Path, signals: list[tuple[str, int, int]]
) -> None:
    end_leftovers(write_notes(tmp_path, note))
    assert signals == []


@pytest.mark.parametrize(
    "changed_fields",
    [{"uid": 4_000_000}, {"started": "1"}, {"marker": "sleep 601"}],
    ids=["another account", "another start", "another command"],
)
def test_a_record_of_another_process_signals_no_process(
    changed_fields: dict[str, object],
    tmp_path: Path,
    sleeper: subprocess.Popen[bytes],
    signals: list[tuple[str, int, int]],
) -> None:
    end_leftovers(write_notes(tmp_path, note_of(sleeper, **changed_fields)))
    assert signals == []


def test_a_process_of_the_stack_is_ended(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    """The control: nothing is changed in the note."""
    note = write_notes(tmp_path, note_of(sleeper))
    end_leftovers(note)
    assert sleeper.wait(30) == -signal.SIGINT
    assert not note.exists()


def test_a_service_is_killed_with_what_it_started(tmp_path: Path) -> None:
    script = 'sleep 600 & echo $! > "$1"; wait'
    child = tmp_path / "child"
    with subprocess.Popen(["sh", "-c", script, "a-service", str(child)], start_new_session=True) as process:
        assert wait_until(lambda: child.exists() and bool(child.read_text()))
        end_leftovers(write_notes(tmp_path, note_of(process, marker="a-service", is_service=True)))
        assert process.wait(30) == -signal.SIGKILL
    assert wait_until(lambda: identity(int(child.read_text())) is None)


def test_a_note_that_is_a_link_is_refused(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    write_notes(tmp_path, note_of(sleeper)).rename(tmp_path / "theirs.json")
    (tmp_path / "servers.json").symlink_to(tmp_path / "theirs.json")
    with pytest.raises(UnsafeFileError, match="it is a link"):
        end_leftovers(tmp_path / "servers.json")
    assert sleeper.poll() is None


def test_a_recorded_process_is_read_back(tmp_path: Path) -> None:
    server: Server = start("sleep", ["sleep", "600"], tmp_path / "log", "sleep 600")
    try:
        record_processes(tmp_path / "servers.json", [server])
        (held,) = recorded_processes(tmp_path / "servers.json")
        assert held.is_running()
        assert wait_until(held.is_marked), "its command line is empty for a moment after it has begun"
        server.release()
        assert wait_until(lambda: (identity(held.pid) or Identity(0, "", "")).command.startswith("sleep"))
        assert held.is_running(), "it is another process once its program has begun"
    finally:
        stop([server])
    assert not held.is_running()


@HAS_PROC
def test_only_programs_of_postgres_are_ended_in_its_data(tmp_path: Path) -> None:
    """A person may have changed to that folder."""
    program = tmp_path / "postgres"
    program.symlink_to("/bin/sleep")
    data = tmp_path / "data"
    data.mkdir()
    with (
        subprocess.Popen([str(program), "600"], cwd=data, start_new_session=True) as session,
        subprocess.Popen(["sleep", "600"], cwd=data, start_new_session=True) as person,
        subprocess.Popen([str(program), "600"], cwd=tmp_path, start_new_session=True) as elsewhere,
    ):
        try:
            end_processes_in(data)
            assert session.wait(30) == -signal.SIGKILL
            assert (person.poll(), elsewhere.poll()) == (None, None)
        finally:
            for process in (session, person, elsewhere):
                process.kill()


@HAS_PROC
def test_ps_reports_what_proc_reports(sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    assert wait_until(lambda: (identity(sleeper.pid) or Identity(0, "", "")).command != "")
    by_proc = identity(sleeper.pid)
    monkeypatch.setattr("noetl_temporal.stack.identity.PROC", Path("/nowhere"))
    by_ps, second_identity = identity(sleeper.pid), identity(sleeper.pid)
    assert by_proc is not None
    assert by_ps is not None
    assert (by_ps.uid, by_ps.command) == (by_proc.uid, by_proc.command)
    assert by_ps == second_identity
    sleeper.kill()
    assert wait_until(lambda: identity(sleeper.pid) is None), "a process that has ended, and was not waited for, runs"


def test_ids_of_process_groups_are_refused() -> None:
    assert [identity(pid) for pid in (-(2**40), -1, 0, 1, 2**40)] == [None] * 5
