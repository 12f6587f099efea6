"""The stack's process is killed at any moment of start and stop: the next start works, and nothing is left running."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl_temporal.stack.home import Home
from noetl_temporal.stack.use import running_stack
from tests.acceptance.processes import wait_until
from tests.acceptance.site import NOETL, Site

pytestmark = [pytest.mark.stack, pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at /proc")]

KILLS = 8


def processes_of(home: Home) -> dict[int, str]:
    """The processes that have the folder in their command line, their environment or as the folder they work in."""
    commands: dict[int, str] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            texts = [(process / name).read_bytes() for name in ("cmdline", "environ")]
            texts.append(os.fsencode((process / "cwd").readlink()))
        except OSError:
            continue
        if int(process.name) != os.getpid() and any(os.fsencode(home.root) in text for text in texts):
            commands[int(process.name)] = texts[0].replace(b"\0", b" ").decode(errors="replace")
    return commands


@pytest.fixture
def site(bare: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    home = Home(bare.folder / "stack")
    monkeypatch.setenv("NOETL_HOME", str(home.root))
    yield bare
    bare.noetl("dev", "down")
    assert wait_until(lambda: not processes_of(home)), processes_of(home)


def serving(site: Site) -> subprocess.Popen[bytes]:
    null = subprocess.DEVNULL
    return subprocess.Popen([*NOETL, "dev", "serve"], cwd=site.folder, stdin=null, stdout=null, stderr=null)


def guards(home: Home) -> list[int]:
    return [pid for pid, command in processes_of(home).items() if "while read -r what pid" in command]


def seconds_of_a_start_and_a_stop(site: Site) -> tuple[float, float]:
    """On this machine, of a stack without data; which it is again afterwards."""
    started_at = time.monotonic()
    owner = serving(site)
    assert wait_until(lambda: running_stack(site.home) is not None, 60)
    started = time.monotonic()
    owner.terminate()
    owner.wait()
    stopped_at = time.monotonic()
    shutil.rmtree(site.home.root)
    return started - started_at, stopped_at - started


def test_processes_killed_at_any_time(site: Site) -> None:
    home = site.home
    chance = random.Random()
    start_seconds, stop_seconds = seconds_of_a_start_and_a_stop(site)
    for kill in range(KILLS):
        owner = serving(site)
        if kill % 4 == 3:  # while it stops
            assert wait_until(lambda: running_stack(home) is not None, 60), f"kill {kill}"
            owner.terminate()
        time.sleep(chance.uniform(0, 1.5 * (stop_seconds if kill % 4 == 3 else start_seconds)))
        if kill % 2:  # what ends the servers is killed too: the next owner has to
            for pid in guards(home):
                os.kill(pid, signal.SIGKILL)
        owner.kill()
        owner.wait()
        if kill % 4 == 0:
            assert wait_until(lambda: not processes_of(home)), processes_of(home)
    up = site.noetl("dev", "up")
    assert up.returncode == 0, up.stderr
    owner_pid = site.addresses().owner_pid
    assert {pid for pid, command in processes_of(home).items() if "dev serve" in command} == {owner_pid}
    commands = list(processes_of(home).values())
    assert len([command for command in commands if "start-dev" in command]) == 1, commands
    assert len([command for command in commands if "-D" in command and "unix_socket_directories=" in command]) == 1, (
        commands
    )
    assert site.noetl("dev", "down").returncode == 0
    assert not [path.name for path in home.root.rglob("*.new")], "a draft was left behind"
