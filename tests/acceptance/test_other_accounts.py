"""A second account of the same machine, which the test really uses, and a root with a strict umask."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl_temporal.payloads.signed_converter import REFUSED
from noetl_temporal.stack import postgres_location
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import owned_stack
from tests.acceptance import other_account
from tests.acceptance.site import ROOT, Site

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root takes on another account"),
]

ANOTHER_UID = 54_321
PLAYBOOK = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: foreign, path: tests/foreign}
workflow:
  - step: start
    tool: {kind: noop}
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every account may enter: what keeps others out are the stack's own permissions."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def open_site(bare: Site, open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A stack in it that has run something."""
    (open_folder / "stack").mkdir(mode=0o755)
    monkeypatch.setenv("NOETL_HOME", str(open_folder / "stack"))
    assert bare.noetl("dev", "up").returncode == 0
    try:
        assert bare.noetl("run", str(ROOT / "dev/examples/hello.yaml")).returncode == 0
        yield bare
    finally:
        bare.noetl("dev", "down")


def attempt_as(uid: int, site: Site) -> dict[str, Any]:
    """The outcomes of everything that ``other_account`` tries."""
    addresses, paths = site.addresses(), list(site.home.root.rglob("*"))
    facts = {
        "files": [str(path) for path in paths if path.is_file()],
        "folders": [str(path) for path in paths if path.is_dir()],
        "sockets": addresses.socket_folder,
        "postgres_port": addresses.postgres_port,
        "temporal": addresses.temporal,
        "key": addresses.signing_key_file,
        "playbook": PLAYBOOK,
    }
    command = [sys.executable, "-P", str(Path(other_account.__file__)), str(uid), json.dumps(facts)]
    environment = {**os.environ, "HOME": "/nonexistent"}  # asyncpg looks for files of its own there
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_another_account_reads_nothing_connects_to_nothing_and_runs_nothing(open_site: Site) -> None:
    files = {path.name for path in open_site.home.root.rglob("*")}
    assert {"stack.json", "servers.json", "temporal.db", "signing.password", "worker.log", "pg_hba.conf"} <= files
    assert attempt_as(ANOTHER_UID, open_site) == {
        "uid": ANOTHER_UID,
        "read": ["PermissionError"],
        "listed": ["PermissionError"],
        "written": ["PermissionError"],
        "reached": "PermissionError",
        "logged in": "InvalidPasswordError",
        "ran": ["[Errno 13] Permission denied", REFUSED],
    }
    control = {
        "read": ["done"],
        "listed": ["done"],
        "written": ["done"],
        "reached": "done",
        "ran": ["key", "completed"],
    }
    own_account = attempt_as(os.getuid(), open_site)
    assert {name: own_account[name] for name in control} == control


# ---- root with a strict umask --------------------------------------------------------------------------------------


@pytest.fixture
def copies(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the programs of Postgres are copied to, as they lie where its account does not get to."""
    installation, is_usable_by_others = postgres_location._installation_folder(), postgres_location._is_usable_by_others  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(postgres_location, "COPIES", open_folder / "copies")

    def is_elsewhere(path: Path) -> bool:
        return path != installation and is_usable_by_others(path)

    monkeypatch.setattr(postgres_location, "_is_usable_by_others", is_elsewhere)
    postgres_location.locate_postgres.cache_clear()
    before = os.umask(0o077)
    yield open_folder / "copies"
    os.umask(before)
    postgres_location.locate_postgres.cache_clear()


def test_a_stack_starts_whatever_the_umask(copies: Path, open_folder: Path) -> None:
    home = Home(open_folder / "home")
    with owned_stack(home, "run"):
        assert postgres_location.locate_postgres().binaries.is_relative_to(copies)
        assert home.root.stat().st_mode & 0o777 == 0o700


def test_programs_that_were_installed_for_root_alone_are_copied(open_folder: Path) -> None:
    installation = open_folder / "pginstall"
    for folder in ("bin", "lib", "share"):
        (installation / folder).mkdir(parents=True)
    (installation / "bin/postgres").touch(mode=0o755)
    is_usable_by_others = postgres_location._is_usable_by_others  # pyright: ignore[reportPrivateUsage]
    assert is_usable_by_others(installation)
    for path, mode in ((installation / "bin/postgres", 0o700), (installation / "lib", 0o700), (installation, 0o700)):
        before = path.stat().st_mode
        path.chmod(mode)
        assert not is_usable_by_others(installation)
        path.chmod(before)
