"""Servers shared by the tests: one embedded stack for the session, stopped at its end."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.own import own


def pytest_configure() -> None:
    """A shell starts what it puts into the background with SIGINT ignored, and so would all processes of the tests."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """Temporal and Postgres on free loopback ports; no worker, no mirror."""
    with own(Home(tmp_path_factory.mktemp("servers")), "run") as (_, addresses):
        yield addresses
