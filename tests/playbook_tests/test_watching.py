"""Work is repeated when a file changes, appears or goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from noetl_temporal.cli.repeat_on_change import repeat_on_change

ROUNDS = 4


def test_work_is_repeated_for_each_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.cli.repeat_on_change.CHECK_SECONDS", 0.01)
    playbook_file, test = tmp_path / "p.yaml", tmp_path / "p.test.yaml"
    playbook_file.write_text("1")
    test.write_text("1")
    changes: list[Callable[[], object]] = [
        lambda: playbook_file.write_text("22"),
        lambda: (tmp_path / "q.test.yaml").write_text("1"),
        test.unlink,
    ]
    rounds: list[int] = []

    def work() -> list[Path]:
        rounds.append(len(rounds))
        if len(rounds) == ROUNDS:
            raise KeyboardInterrupt
        threading.Timer(0.05, changes[len(rounds) - 1]).start()
        return [playbook_file]

    started_at = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        repeat_on_change(work, lambda: tmp_path.glob("*.test.yaml"))
    assert len(rounds) == ROUNDS
    assert time.monotonic() - started_at < 10


def test_a_change_during_the_work_counts(tmp_path: Path) -> None:
    file = tmp_path / "p.test.yaml"
    file.write_text("1")
    rounds: list[int] = []

    def work() -> list[Path]:
        rounds.append(1)
        if len(rounds) > 1:
            raise KeyboardInterrupt
        file.write_text("22")
        return [file]

    with pytest.raises(KeyboardInterrupt):
        repeat_on_change(work, lambda: [file])
