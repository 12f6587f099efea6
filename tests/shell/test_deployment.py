"""A deployment that cannot be used is reported, with the remedy."""

from __future__ import annotations

import socket

import pytest

from noetl_temporal.config import connect_temporal
from noetl_temporal.deployment import DeploymentError, check_postgres, postgres_error
from noetl_temporal.environment import dsn_from_environment
from noetl_temporal.stack.addresses import Addresses

CLOSED_ADDRESS = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.config.CONNECT_SECONDS", 2.0)
    monkeypatch.setattr("noetl_temporal.deployment.CONNECT_SECONDS", 2.0)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"ADDRESS": CLOSED_ADDRESS}, "Temporal at 127.0.0.1:1: connection refused"),
        ({"ADDRESS": "nowhere.invalid:7233"}, "unknown host"),
        ({"ADDRESS": "http://a:7233"}, "without a scheme"),
        ({"PROFILE": "nosuch"}, "Profile 'nosuch' not found"),
        ({"ADDRESS": CLOSED_ADDRESS, "TLS_CLIENT_CERT_PATH": "/nowhere.pem"}, "/nowhere.pem"),
    ],
)
async def test_an_unusable_temporal_is_reported(
    settings: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"TEMPORAL_{name}", value)
    with pytest.raises(DeploymentError, match=says):
        await connect_temporal()


@pytest.mark.parametrize("setting", ["TEMPORAL_TLS", "TEMPORAL_API_KEY"])
async def test_tls_to_a_server_without_it_is_reported(
    servers: Addresses, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(setting, "true")
    with pytest.raises(DeploymentError, match="TEMPORAL_TLS=false"):
        await connect_temporal(servers.temporal)


async def test_a_server_with_another_protocol_is_reported(servers: Addresses) -> None:
    with pytest.raises(DeploymentError, match="not Temporal's gRPC port"):
        await connect_temporal(servers.ui.removeprefix("http://"))


async def test_an_unusable_postgres_is_reported_without_its_password(servers: Addresses) -> None:
    right = servers.postgres
    for dsn, says in [
        ("postgresql://noetl:hush@127.0.0.1:1/noetl", "Postgres at 127.0.0.1:1/noetl: connection refused"),
        (right.replace(servers.postgres_password, "hush"), "login was refused"),
        (f"{right}_nope", "does not exist"),
        (f"{servers.postgres_tcp}?sslmode=require", "SSL"),
        ("hush", "does not begin with postgresql://"),
        ("postgresql://noetl:hush@127.0.0.1:port/noetl", "NOETL_POSTGRES"),
    ]:
        with pytest.raises(DeploymentError, match=says) as failure:
            await check_postgres(dsn)
        assert "hush" not in str(failure.value)
    await check_postgres(right)


@pytest.mark.parametrize(
    ("dsn", "says"),
    [
        ("postgresql://noetl:hush/hush@127.0.0.1:1/noetl", "cannot be parsed from character 29 on"),
        ("postgresql://noetl:hush@hush@127.0.0.1/noetl", "cannot be parsed from character 29 on"),
        ("postgresql://noetl:127#hush@127.0.0.1/noetl", "cannot be parsed from character 23 on"),
        ("postgresql://noetl:1/hush@127.0.0.1/noetl", "cannot be parsed from character 26 on"),
        ("hush", "does not begin with postgresql://"),
    ],
)
async def test_an_invalid_dsn_is_reported_by_position(dsn: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_POSTGRES", dsn)
    with pytest.raises(DeploymentError, match=f"NOETL_POSTGRES is not a valid DSN: it {says}") as failure:
        dsn_from_environment()
    with pytest.raises(DeploymentError, match=says) as check_failure:
        await check_postgres(dsn)
    for error in (failure.value, check_failure.value, postgres_error(ValueError(dsn), dsn)):
        assert "hush" not in str(error)


@pytest.mark.parametrize("query", ["sslmode=hush", "target_session_attrs=hush", "sslnegotiation=hush"])
async def test_the_drivers_words_on_its_settings_are_not_repeated(query: str) -> None:
    with pytest.raises(DeploymentError, match="the parameters of the DSN") as failure:
        await check_postgres(f"postgresql://noetl:hush@127.0.0.1:1/noetl?{query}")
    assert "hush" not in str(failure.value)


async def test_a_postgres_that_never_answers_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(DeploymentError, match="timed out after 2 s"):
            await check_postgres(f"postgresql://noetl:hush@127.0.0.1:{port}/noetl?sslmode=disable")
