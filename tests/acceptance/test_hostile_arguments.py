"""Arguments, payloads and files of any shape are refused in words: quickly, and never as a bug of ours."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from noetl_temporal.cli.arguments import NAME
from noetl_temporal.cli.commands import cli
from noetl_temporal.cli.payload import read_payload
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.submission.credential_source import credential_source
from tests.acceptance.site import NOETL, Site

HELLO = """apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: hostile, path: tests/hostile}
workload: {a: 1}
workflow:
  - step: start
    tool: {kind: noop}
"""
BOMB = "{a0: &a0 [x, x], " + ", ".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)) + "}"
MERGES = "{m: &m {" + ",".join(f"k{n}: 1" for n in range(999)) + "}, b: {<<: [" + "*m," * 9999 + "]}}"

PAYLOADS = {
    "lists 100,000 deep": ("[" * 100_000, "nested deeper than 100 levels"),
    "objects 100,000 deep": ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested deeper than 100 levels"),
    "four megabytes of lists": ('{"a": [' + "[]," * 1_300_000 + "1]}", "more than 1,000,000 values"),
    "no end of a text": ('{"a": "' + '\\"' * 2_000_000, "is not JSON"),
    "a number beyond all": ('{"a": 1e999}', "is not JSON"),
    "not a number": ('{"a": NaN}', "is not JSON"),
    "an integer of 5,000 digits": ('{"a": ' + "9" * 5000 + "}", "is not JSON"),
    "half a character": ('{"a": "\\ud800"}', "is not JSON"),
}
SETTINGS = {
    "20,000 names": (".".join(["a"] * 20_000) + "=1", "more than 100 levels"),
    "20,000 brackets": ("a=" + "[" * 20_000 + "]" * 20_000, "more than 100 levels"),
    "20,000 braces": ("a=" + "{a: " * 20_000 + "}" * 20_000, "more than 100 levels"),
    "60 names and 60 brackets": (".".join(["a"] * 60) + "=" + "[" * 60 + "]" * 60, "more than 100 levels"),
    "a bomb of aliases": (f"a={BOMB}", "the aliases repeat more than"),
    "a bomb of merges": (f"a={MERGES}", "the aliases repeat more than"),
    "merges of merges": (
        "a=" + "{<<: " * 95 + "{" + ",".join(f"k{n}: 1" for n in range(9000)) + "}" * 96,
        "merge keys copy more than 100,000 entries",
    ),
    "a number of 5,000 digits": ("a=" + "9" * 5000, "the number is too long"),
    "a tag": ("a=!!python/object:os.system x", "is not supported"),
    "half a character in a name": ("a.\udcff=1", "--set takes name=value"),
    "an escape in a name": ("a.\x1b[31m=1", "--set takes name=value"),
}
SECONDS = 20
"""What none of these may take: each took minutes or did not end, and takes hundredths of that."""


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_hostile_payload_is_refused_with_a_message(name: str, tmp_path: Path) -> None:
    payload, says = PAYLOADS[name]
    file = tmp_path / "payload.json"
    file.write_text(payload)
    started_at = time.process_time()
    for argument in (payload, f"@{file}"):
        with pytest.raises(click.UsageError, match=says):
            read_payload(argument, [])
    assert time.process_time() - started_at < SECONDS


@pytest.mark.parametrize("name", SETTINGS)
def test_a_hostile_setting_is_refused_with_a_message(name: str) -> None:
    setting, says = SETTINGS[name]
    started_at = time.process_time()
    with pytest.raises(click.UsageError, match=says) as failure:
        read_payload(None, [setting])
    assert time.process_time() - started_at < SECONDS
    assert len(str(failure.value)) < 400


def test_all_settings_share_one_limit() -> None:
    repeating = "{x: &a [" + "1," * 3000 + "], y: [" + "*a," * 30 + "]}"
    with pytest.raises(click.UsageError, match="more than 1,000,000 values in all"):
        read_payload(None, [f"a{index}={repeating}" for index in range(20)])


def test_20_000_settings_cost_20_times_those_of_1_000() -> None:
    def seconds(count: int) -> float:
        started_at = time.process_time()
        assert len(read_payload(None, [f"a{index}=1" for index in range(count)])) == count
        return time.process_time() - started_at

    seconds(100)
    assert seconds(20_000) < 100 * min(seconds(1_000), seconds(1_000))


def test_the_deepest_payload_that_is_read_can_be_sent_on() -> None:
    deepest = '{"a":' + "[" * 99 + "]" * 99 + "}"
    assert json.dumps(read_payload(deepest, []), separators=(",", ":")) == deepest


# ---- the command, with its memory limited -----------------------------------------------------------------------

MEMORY = 1 << 30


def refusal_of(site: Site, *args: str, stdin: int = subprocess.DEVNULL) -> str:
    """What a command says that ends by itself, with status 2 and within 1 GB."""
    done = subprocess.run(
        [*NOETL, *args],
        cwd=site.folder,
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=limit_memory if sys.platform == "linux" else None,  # macOS has no such limit
    )
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr
    assert done.returncode == 2, done.stderr
    return done.stderr


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


@pytest.fixture
def pipe(bare: Site) -> str:
    """A pipe that nobody writes to."""
    os.mkfifo(bare.folder / "pipe.yaml")
    return "pipe.yaml"


@pytest.mark.parametrize(
    "args",
    [
        ("run", "FILE"),
        ("compile", "FILE"),
        ("migrate", "FILE"),
        ("migrate", "--write", "FILE"),
        ("replay", "FILE"),
        ("run", "hello.yaml", "--payload", "@FILE"),
        ("compile", "hello.yaml", "--forecast", "--payload", "@FILE"),
        ("run", "hello.yaml", "--credentials", "FILE"),
        ("compile", "hello.yaml", "--playbooks", "FILE"),
    ],
)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_only_files_are_read(bare: Site, pipe: str, args: tuple[str, ...], kind: str) -> None:
    bare.write(HELLO, "hello.yaml")
    file = {"pipe": pipe, "device": "/dev/zero"}[kind]
    assert file in refusal_of(bare, *(arg.replace("FILE", file) for arg in args))


def test_a_pipe_in_a_folder_is_not_a_playbook(bare: Site, pipe: str) -> None:
    bare.write(HELLO, "hello.yaml")
    done = bare.noetl("compile", ".", "--playbooks", ".")
    assert done.returncode == 0
    assert pipe not in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["compile", "migrate"])
def test_endless_standard_input_is_read_up_to_the_limit(bare: Site, command: str) -> None:
    with Path("/dev/zero").open("rb") as endless:
        done = subprocess.run(
            [*NOETL, command, "-"], cwd=bare.folder, stdin=endless, capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 1
    assert "the text is longer than 16,000,000 bytes" in done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("status", "9" * 5000),
        ("status", "9" * 30),
        ("events", "9" * 30),
        ("cancel", "9" * 30),
        ("terminate", "9" * 30),
        ("replay", "9" * 5000),
        ("run", "hello.yaml", "--timeout", "nan"),
        ("run", "hello.yaml", "--timeout", "1e99"),
        ("worker", "--grace", "nan"),
        ("compile", "hello.yaml", "--forecast", "--items", "start=" + "9" * 5000),
        ("compile", "hello.yaml", "--forecast", "--result-bytes", "start=" + "9" * 15),
        ("prune", "--older-than", "9" * 5000 + "d"),
        ("run", "hello.yaml", "--payload", '{"' + "k" * 100_000 + '": 1}'),
    ],
)
def test_numbers_and_names_beyond_all_are_refused(bare: Site, args: tuple[str, ...]) -> None:
    bare.write(HELLO, "hello.yaml")
    assert refusal_of(bare, *args)


def parameters_of(command: click.Command) -> Iterator[click.Parameter]:
    yield from command.params
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            nested_command = command.get_command(click.Context(command), name)
            assert nested_command is not None
            yield from parameters_of(nested_command)


def test_text_that_is_not_unicode_is_refused_wherever_it_is_not_a_path_of_a_file() -> None:
    texts = [
        event for event in parameters_of(cli) if not isinstance(event.type, click.Path | click.types.BoolParamType)
    ]
    assert {"reason", "decided_by", "step", "name", "fields", "settings"} <= {parameter.name for parameter in texts}
    for parameter in texts:
        with pytest.raises(click.BadParameter):
            parameter.type.convert("abcdef\udcff", parameter, None)


@pytest.mark.parametrize("name", ["step", "by", "key", "path"])
def test_a_name_is_not_empty(name: str) -> None:
    for parameter in (event for event in parameters_of(cli) if event.name == name and event.type is NAME):
        with pytest.raises(click.BadParameter, match="1 to 1,000 characters"):
            parameter.type.convert("", parameter, None)


def test_a_pipe_is_refused_as_credentials_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "credentials.yaml"
    os.mkfifo(pipe)
    monkeypatch.setenv("NOETL_CREDENTIALS", str(pipe))
    with pytest.raises(DeploymentError, match=r"NOETL_CREDENTIALS.*it is a pipe"):
        credential_source()
