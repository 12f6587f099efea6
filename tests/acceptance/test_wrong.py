"""A wrong playbook or a wrong call: reported with exit status 2, and nothing is started."""

from __future__ import annotations

import os

import click
import pytest
from click.testing import CliRunner

from noetl_temporal.cli.commands import COMMANDS, cli
from tests.acceptance.site import ROOT, Site

HELLO = str(ROOT / "dev/examples/hello.yaml")

THREE_MISTAKES = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: wrong, path: tests/wrong}
workflow:
  - step: start
    tool: {kind: python, code: "result = 1"}
    next: {arcs: [{step: fetc}]}
  - step: fetch
    tool: {kind: http, url: "{{ workload.url | nosuchfilter }}"}
    retries: 3
"""


def test_three_mistakes_are_reported_at_once(bare: Site) -> None:
    file = bare.write(THREE_MISTAKES)
    done = bare.noetl("run", str(file))
    splitlines = [line for line in done.stderr.splitlines() if ": error[" in line]
    assert done.returncode == 2
    assert [line.removeprefix(f"{file}:").split(":")[0] for line in splitlines] == ["7", "9", "10"]
    assert not bare.home.root.exists(), "a stack was started"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere.yaml"], "nowhere.yaml"),
        (["."], "."),
        ([HELLO, "--payload", "{"], "--payload is not JSON"),
        ([HELLO, "--payload", "@nowhere.json"], "no such file: 'nowhere.json'"),
        ([HELLO, "--payload", "@."], "cannot read .: Is a directory"),
        ([HELLO, "--set", "name"], "--set takes name=value"),
        ([HELLO, "--set", "nam=Ada"], 'did you mean "name"?'),
        ([HELLO, "--set", "city=Oslo"], "the playbook does not use 'city'"),
        ([HELLO, "--credentials", "nowhere.yaml"], "nowhere.yaml"),
        ([HELLO, "--timeout", "soon"], "--timeout"),
        ([HELLO, "--timeout", "0"], "--timeout"),
        ([], "FILE"),
        ([HELLO, "--nosuch"], "--nosuch"),
    ],
)
def test_a_wrong_command_line_is_reported(bare: Site, args: list[str], says: str) -> None:
    done = bare.noetl("run", *args)
    assert done.returncode == 2
    assert says in done.stderr
    assert not bare.home.root.exists(), "a stack was started"


@pytest.mark.parametrize("text", ["", "- a", "a: [", "\0", "kind: Playbook\nworkflow: 3\n", "é: 1"])
def test_a_file_that_is_not_a_playbook_is_reported(bare: Site, text: str) -> None:
    done = bare.noetl("run", str(bare.write(text)))
    assert done.returncode == 2
    assert "playbook.yaml:" in done.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("just text", "credentials.yaml contains no credentials"),
        ("- just\n- texts", "credentials.yaml: entry 1 is not a credential"),
        ("a: 1\nb: [", "credentials.yaml:2:5: the credentials file is not valid YAML"),
    ],
)
def test_invalid_credentials_are_reported(bare: Site, text: str, says: str) -> None:
    done = bare.noetl("run", HELLO, "--credentials", str(bare.write(text, "credentials.yaml")))
    assert done.returncode == 2
    assert says in done.stderr.splitlines()[-1]
    assert not bare.home.root.exists(), "a stack was started"


@pytest.mark.parametrize("command", [["run", HELLO], ["dev", "up"]])
@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("credentials.yaml", "set it to an absolute path"),
        ("{folder}/nowhere.yaml", "No such file or directory"),
        ("{folder}/credentials.yaml", "the credential 'api': unknown key \"tokn\""),
    ],
)
def test_an_invalid_noetl_credentials_is_reported(
    bare: Site, monkeypatch: pytest.MonkeyPatch, command: list[str], argument: str, says: str
) -> None:
    bare.write("api: {type: bearer, tokn: hush}\n", "credentials.yaml")
    monkeypatch.setenv("NOETL_CREDENTIALS", argument.format(folder=bare.folder))
    done = bare.noetl(*command)
    assert done.returncode == 2
    assert "NOETL_CREDENTIALS" in done.stderr
    assert says in done.stderr
    assert "hush" not in done.stderr
    assert not bare.home.root.exists(), "a stack was started"


@pytest.mark.parametrize("command", [["status"], ["events"], ["status", "7" * 18], ["dev", "down"], ["dev", "status"]])
def test_commands_that_read_start_no_stack(bare: Site, command: list[str]) -> None:
    done = bare.noetl(*command)
    assert done.returncode == {"down": 0, "status": 1}.get(command[-1] if command[0] == "dev" else "", 2)
    assert done.stdout + done.stderr
    assert not bare.home.root.exists(), "looking started something"


@pytest.mark.parametrize("command", [[], ["rebuild"], ["problems"]])
def test_help_of_the_mirror_needs_no_stack(bare: Site, command: list[str]) -> None:
    done = bare.noetl("mirror", *command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage:" in done.stdout


def test_ctrl_c_while_the_command_is_imported_leaves_quietly(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    bare.write("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n", "click.py")
    monkeypatch.setenv("PYTHONPATH", str(bare.folder), prepend=os.pathsep)
    done = bare.noetl("--version")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("command", [["dev", "up"], ["dev", "status"], ["dev", "down"], ["status"], ["run", HELLO]])
def test_a_home_that_is_not_a_folder_is_reported(
    bare: Site, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    home = bare.write("text", "home.txt")
    monkeypatch.setenv("NOETL_HOME", str(home))
    done = bare.noetl(*command)
    assert done.returncode == (2 if command[0] == "run" else 1)
    assert done.stderr.startswith(f"Error: cannot use the folder {home}: ")
    assert done.stderr.endswith("; set NOETL_HOME to a folder you own\n")


def test_a_misspelt_command_is_reported_with_the_nearest(bare: Site) -> None:
    done = bare.noetl("compil")
    assert (done.returncode, "No such command 'compil'. Did you mean 'compile'?" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["cancel", "abc"], "'abc' is too short: give at least 6 characters"),
        (["worker", "--tools="], "--tools names no tool"),
        (["worker", "--tools", " , "], "--tools names no tool"),
    ],
)
def test_a_wrong_argument_is_reported(bare: Site, args: list[str], says: str) -> None:
    done = bare.noetl(*args)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())


def test_an_address_without_a_port_is_reported(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "localhost")
    done = bare.noetl("status")
    assert done.returncode == 2
    assert "localhost has no port, such as localhost:7233" in done.stderr


def test_no_help_of_a_command_is_truncated_in_the_list_of_its_group() -> None:
    with cli.make_context("noetl", ["run"], resilient_parsing=True) as context:
        groups = {
            name: command for name in COMMANDS if isinstance(command := cli.get_command(context, name), click.Group)
        }
    assert {"dev", "schedule", "catalog"} <= groups.keys()
    lists = [CliRunner().invoke(group, ["--help"]).stdout.partition("Commands:")[2] for group in groups.values()]
    assert [line for text in lists for line in text.splitlines() if line.endswith("...")] == []


def test_a_folder_without_a_stack_is_named(bare: Site) -> None:
    errors = bare.noetl("status").stderr
    assert f"no stack is running for {bare.folder.resolve()}: start it with `noetl dev up`, or" in errors


@pytest.mark.parametrize(
    "args", [["status"], ["wait", "769947972797655783"], ["register", str(ROOT / "dev/examples/hello.yaml")]]
)
def test_a_command_that_needs_a_stack_ends_with_2_without_one(bare: Site, args: list[str]) -> None:
    done = bare.noetl(*args)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "no stack is running" in done.stderr
