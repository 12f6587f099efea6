"""Servers shared by the tests: one embedded stack for the session, stopped at its end."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from noetl_activities.isolation.settings import TASK_DIRECTORIES_VARIABLE
from noetl_activities.variables import DUCKDB_DIRECTORIES_VARIABLE, HOME_VARIABLE
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import owned_stack
from tests import nats_server

if TYPE_CHECKING:
    from tests.object_store import ObjectStore


def pytest_configure() -> None:
    """For any machine: loaded ones, where an example may take seconds, and shells that ignore SIGINT for what they put
    into the background, and so for all processes of the tests.
    """
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The data folder of whoever runs the tests keeps no stack of theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture
def duckdb_files(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB may use the files of the test."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv(DUCKDB_DIRECTORIES_VARIABLE, str(tmp_path))


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """Temporal and Postgres on free loopback ports; no worker, no mirror."""
    with owned_stack(Home(tmp_path_factory.mktemp("servers")), "run") as (_, addresses):
        yield addresses


@pytest.fixture(scope="session")
def nats_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A NATS server with JetStream."""
    with nats_server.serve(tmp_path_factory.mktemp("nats")) as address:
        yield address


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    """A server compatible with S3."""
    from tests.object_store import serve  # slow to import, and few tests need it

    with serve() as store:
        yield store


@pytest.fixture
def task_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that python tasks may read and write, also those with an account of their own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    monkeypatch.setenv(TASK_DIRECTORIES_VARIABLE, str(folder))
    yield folder
    shutil.rmtree(folder)
