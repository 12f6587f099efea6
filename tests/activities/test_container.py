"""The container tool: with the real command of Docker where it is installed, without a daemon; and with a program that
takes the engine's arguments and runs the command on this machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl_activities.container.call import ContainerCall, container_call
from noetl_activities.container.tool import CONTAINERS_VARIABLE, TOOL
from noetl_activities.errors import ConfigError, RefusedError
from noetl_activities.outcome import Outcome

from .conftest import Context, request

ENGINE = r"""#!/bin/sh
# Runs the command itself. It notes its arguments and its environment, and reads the variables of --env-file.
folder=$(dirname "$0")
echo "$@" >> "$folder/calls"
env > "$folder/environment"
[ "$1" = rm ] && exit 0
shift
while [ "${1#--}" != "$1" ]; do
  case "$1" in --env-file=*) variables=${1#--env-file=};; esac
  shift
done
shift
if [ $# = 0 ]; then echo "the image's own command"; exit 0; fi
exec env -i PATH=/usr/bin:/bin $(cat "$variables") "$@"
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the program, in which it notes its calls."""
    program = tmp_path / "podman"
    program.write_text(ENGINE)
    program.chmod(0o755)
    monkeypatch.setenv(CONTAINERS_VARIABLE, "podman")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


async def run(attempt: int = 1, **config: Any) -> Outcome:
    context = Context()
    context.attempt = attempt
    config_: dict[str, Any] = {"image": "alpine:3.19", **config}
    request_ = request("container", **config_)
    return await TOOL.run(msgspec.structs.replace(request_, key="42/container"), context)


def calls(engine: Path) -> list[str]:
    return (engine / "calls").read_text().splitlines()


async def test_the_command_of_the_image_runs(engine: Path) -> None:
    assert (await run()).result == {"exit_code": 0, "stdout": "the image's own command\n", "stderr": ""}
    [run_arguments] = calls(engine)
    assert run_arguments.startswith("run --rm --init --name=noetl-")
    assert run_arguments.endswith("--pids-limit=512 alpine:3.19")


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "config",
    [
        {"command": ["/bin/sh", "-c"], "args": ["echo $NAME; echo oh >&2"], "env": {"NAME": "Ada"}},
        {"command": "echo $NAME; echo oh >&2", "env": [{"name": "NAME", "value": "Ada"}]},
        {"script": "echo $NAME; echo oh >&2", "input": {"NAME": "Ada"}},
        {"runtime": {"image": "alpine", "command": "echo $NAME; echo oh >&2"}, "env": {"NAME": "Ada"}},
    ],
)
async def test_the_output_of_a_container(config: Any) -> None:
    assert await run(**config) == Outcome("ok", {"exit_code": 0, "stdout": "Ada\n", "stderr": "oh\n"})


async def test_variables_are_not_in_the_arguments_and_not_in_the_engines_environment(engine: Path) -> None:
    outcome = await run(command=["env"], env={"TOKEN": "hush-hush", "LD_PRELOAD": "/nowhere.so"})
    assert "TOKEN=hush-hush" in outcome.result["stdout"]
    assert "hush-hush" not in (engine / "calls").read_text()
    assert "LD_PRELOAD" not in (engine / "environment").read_text()


@pytest.mark.usefixtures("engine")
async def test_a_status_is_an_error_with_its_result() -> None:
    outcome = await run(command="echo no; exit 3")
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code) == ("exception", "3")
    assert outcome.error.message == "the container ended with status 3: no"
    assert outcome.result["exit_code"] == 3


async def test_limits_are_those_of_kubernetes(engine: Path) -> None:
    await run(command="true", resources={"limits": {"cpu": "250m", "memory": "128Mi"}, "requests": {"cpu": "1"}})
    assert "--memory=134217728 --memory-swap=134217728 --cpus=0.25" in calls(engine)[0]


async def test_a_cancelled_call_removes_its_container(engine: Path) -> None:
    running = asyncio.create_task(run(command="sleep 60"))
    while not (engine / "calls").exists():
        await asyncio.sleep(0.05)
    started = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    name = calls(engine)[0].split("--name=")[1].split()[0]
    assert calls(engine)[1:] == [f"rm --force {name}"]
    assert time.monotonic() - started < 10


async def test_a_container_left_by_a_lost_worker_is_removed_first(engine: Path) -> None:
    await run(command="true", attempt=2)
    remove_arguments, run_arguments = calls(engine)
    assert remove_arguments.startswith("rm --force noetl-")
    assert remove_arguments.split()[-1] in run_arguments


@pytest.mark.skipif(shutil.which("docker") is None, reason="docker is not installed")
async def test_without_a_daemon_there_is_no_connection(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CONTAINERS_VARIABLE, "docker")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere.sock")
    outcome = await run(command="true")
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable, outcome.result) == ("connection", True, None)
    assert outcome.error.message.startswith("docker did not run the container: ")


async def test_containers_run_only_if_the_deployment_allows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONTAINERS_VARIABLE, raising=False)
    with pytest.raises(RefusedError, match="set NOETL_CONTAINERS to docker or podman"):
        await run()


async def test_an_engine_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CONTAINERS_VARIABLE, "podman")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="podman is not installed on the machine of the worker"):
        await run()


@pytest.mark.parametrize(
    "image", ["alpine", "alpine:3.19", "localhost:5000/a/b:1", f"ghcr.io/o/i@sha256:{'0' * 64}", "noetl/x-y_z:latest"]
)
def test_valid_image_references_are_accepted(image: str) -> None:
    assert container_call(request("container", image=image)) == ContainerCall(image, [], {}, None, None)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"image": "--privileged"}, "needs an image"),
        ({"image": "-v/:/host"}, "needs an image"),
        ({"image": "a b"}, "needs an image"),
        ({"image": None}, "needs an image"),
        ({"env": {"A B": "1"}}, "an invalid variable name"),
        ({"env": {"A": "1\nLD_PRELOAD=x"}}, 'the variable A of "env" has several lines'),
        ({"env": "A=1"}, '"env" must be a mapping'),
        ({"args": {"a": 1}}, '"args" must be a string or a list'),
        ({"resources": {"limits": {"memory": "lots"}}}, '"memory" of "resources.limits" must be a number'),
        ({"resources": {"limits": {"cpu": "0"}}}, '"cpu" of "resources.limits"'),
        ({"runtime": {"files": [{"path": "x"}]}}, '"files" cannot be mounted here'),
        ({"command": ["a\0b"]}, "NUL character"),
    ],
)
def test_invalid_calls_are_refused(config: Any, why: str) -> None:
    config_: dict[str, Any] = {"image": "alpine", **config}
    with pytest.raises(ConfigError, match=why):
        container_call(request("container", **config_))


@pytest.mark.usefixtures("engine")
async def test_credentials_are_not_passed_whole() -> None:
    with pytest.raises(ConfigError, match="takes no auth"):
        await TOOL.run(request("container", "api", image="alpine"), Context())


def test_values_that_are_no_texts_are_json() -> None:
    call = container_call(request("container", image="alpine", env={"A": 1, "B": {"c": [True]}, "D": None}))
    assert call.environment == {"A": "1", "B": json.dumps({"c": [True]}), "D": ""}
