"""What a deployment says about the tasks of its playbooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_activities.errors import ConfigError
from noetl_activities.isolation.files import allowed_paths
from noetl_activities.isolation.landlock import LIST, WRITE
from noetl_activities.isolation.limits import GIB
from noetl_activities.isolation.settings import read_settings


def test_default_settings_of_the_sandbox() -> None:
    settings = read_settings({})
    assert (settings["writable_directories"], settings["hidden_paths"]) == ([], [])
    assert settings["ports"] == [53, 80, 443, 8080, 8443]
    assert settings["memory_bytes"] == 4 * GIB


@pytest.mark.parametrize(
    ("task_ports", "stack", "expected"),
    [
        ("", "", []),
        ("443, 5000", "", [443, 5000]),
        ("443,7233,5432", "7233,5432", [443]),
        (None, "8080", [53, 80, 443, 8443]),
    ],
)
def test_ports_are_those_named_but_never_the_stacks(task_ports: str | None, stack: str, expected: list[int]) -> None:
    environment = (
        {"NOETL_STACK_PORTS": stack}
        if task_ports is None
        else {"NOETL_STACK_PORTS": stack, "NOETL_TASK_PORTS": task_ports}
    )
    assert read_settings(environment)["ports"] == expected


def test_links_in_configured_paths_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link may be changed after the worker has begun; what it names is decided here."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "credentials.yaml").touch()
    monkeypatch.chdir(tmp_path)
    environment = {
        "NOETL_TASK_DIRECTORIES": "link::real",
        "NOETL_CREDENTIALS": "credentials.yaml",
        "NOETL_HOME": "none",
    }
    settings = read_settings(environment)
    assert settings["writable_directories"] == [str(tmp_path / "real")] * 2
    assert settings["hidden_paths"] == [str(tmp_path / "credentials.yaml")]


def test_values_that_are_not_paths_are_dropped() -> None:
    environment = {
        "NOETL_CREDENTIAL_PG": "{" * 10_000,
        "NOETL_POSTGRES": "postgresql://u:p@h/d",
        "NOETL_TASK_PORTS": "",
    }
    assert read_settings(environment)["hidden_paths"] == []


def test_allowed_paths_exclude_hidden_ones(tmp_path: Path) -> None:
    for name in ("data/deep/secret", "data/deep/file", "data/file", "home/venv/python"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "data/link").symlink_to("/")
    hidden_paths_ = [str(tmp_path / "data/deep/secret"), str(tmp_path / "home")]
    allowed_paths_ = allowed_paths(
        [str(tmp_path / "data"), str(tmp_path / "home/venv"), str(tmp_path / "home")], hidden_paths_
    )
    below = sorted(
        (path.removeprefix(f"{tmp_path}/"), rights)
        for path, rights in allowed_paths_
        if path.startswith(f"{tmp_path}/")
    )
    assert below == [
        ("data", LIST),
        ("data/deep", LIST),
        ("data/deep/file", WRITE),
        ("data/file", WRITE),
        ("home/venv", WRITE),
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NOETL_TASK_PORTS", "http"),
        ("NOETL_TASK_PORTS", "-1"),
        ("NOETL_TASK_PORTS", "65536"),
        ("NOETL_TASK_MEMORY", "much"),
        ("NOETL_TASK_MEMORY", "-1"),
        ("NOETL_TASK_MEMORY", "inf"),
        ("NOETL_TASK_MEMORY", "nan"),
    ],
)
def test_a_variable_without_a_valid_value_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        read_settings({name: value})
