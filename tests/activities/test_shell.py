"""The shell tool: a real shell each time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from noetl_activities.captured_output import MAX_OUTPUT_BYTES
from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.shell.call import MAX_TEXT_BYTES
from noetl_activities.shell.tool import TOOL

from .conftest import Context, request
from .test_isolation import ACTIVE, ISOLATION
from .test_python import exists

TOKEN = "hush-hush-token"


async def run(*cmds: Any, auth: Any = None, **config: Any) -> Outcome:
    context = Context(api={"type": "bearer", "token": TOKEN})
    return await TOOL.run(request("shell", auth, cmds=list(cmds), **config), context)


async def output_of(*cmds: str, **config: Any) -> str:
    outcome = await run(*cmds, **config)
    assert outcome.error is None
    return str(outcome.result["stdout"])


async def test_the_commands_run_in_order() -> None:
    outcome = await run("echo one; echo oh >&2", "echo two")
    assert outcome == Outcome("ok", {"exit_code": 0, "stdout": "one\ntwo\n", "stderr": "oh\n"})


@pytest.mark.parametrize(
    "config", [{"cmds": "echo a\necho b"}, {"command": "echo a\necho b"}, {"command": ["echo a", "echo b"]}]
)
async def test_a_command_of_several_lines_is_one_script(config: Any) -> None:
    outcome = await TOOL.run(request("shell", **config), Context())
    assert outcome.result["stdout"] == "a\nb\n"


async def test_each_command_of_a_list_has_a_shell_of_its_own_and_all_one_folder() -> None:
    assert await output_of("A=1; cd /; touch $HOME/made", 'echo "a=$A"; ls') == "a=\nmade\n"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo x &> f; cat f", "x\n"),
        ("set -o pipefail; echo {1..3}", "1 2 3\n"),
        ("cat <<< here; cat <(echo there)", "here\nthere\n"),
        ("yes | head -1", "y\n"),
        ("cat", ""),
        ("printf '\\303\\251\\377'", "é\N{REPLACEMENT CHARACTER}"),
    ],
)
async def test_commands_run_in_bash(command: str, expected: str) -> None:
    outcome = await run(command)
    assert (outcome.error, outcome.result["stdout"], outcome.result["stderr"]) == (None, expected, "")


async def test_another_shell_may_be_named() -> None:
    assert await output_of('echo "bash: $BASH_VERSION"', shell="sh") == "bash: \n"


# ---- failures --------------------------------------------------------------------------------------------------------


async def test_a_status_other_than_0_is_an_error_that_keeps_the_output() -> None:
    outcome = await run("echo one", "echo two; echo bad >&2; exit 3", "echo three")
    assert outcome.result == {"exit_code": 3, "stdout": "one\ntwo\n", "stderr": "bad\n"}
    assert outcome.error == ErrorInfo("exception", "command 2 of 3 ended with status 3: bad", code="3")


@pytest.mark.parametrize(
    ("command", "message", "code"),
    [
        ("exit 1", "the command ended with status 1", "1"),
        ("echo why; exit 1", "the command ended with status 1: why", "1"),
        (
            "no-such-program",
            "the command ended with status 127: bash: line 1: no-such-program: command not found",
            "127",
        ),
        ("kill -9 $$", "the command was ended by SIGKILL", "137"),
        ("(exit 137)", "the command ended with status 137, as after SIGKILL", "137"),
        ("exit 255", "the command ended with status 255", "255"),
        ("kill -s SEGV $$", "the command was ended by SIGSEGV", "139"),
        ("kill -9 $PPID; sleep 60", "the command was ended by SIGKILL", "137"),
    ],
)
async def test_the_exit_status_of_a_command_is_reported(command: str, message: str, code: str) -> None:
    outcome = await run(command)
    assert outcome.error == ErrorInfo("exception", message, code=code)
    assert outcome.result["exit_code"] == int(code)


async def test_the_message_has_the_end_of_stderr() -> None:
    outcome = await run("for n in $(seq 9000); do echo line $n is quite long; done >&2; echo; exit 1")
    assert outcome.error is not None
    assert outcome.error.message.endswith(
        "status 1: " + " | ".join(f"line {n} is quite long" for n in range(8996, 9001))
    )


async def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_TASK_MEMORY", "0.05")
    outcome = await run("head -c 200000000 /dev/zero | tail -c 200000000 | wc -c")
    assert "memory exhausted" in outcome.result["stderr"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"cmds": []}, 'needs "cmds" or "command"'),
        ({"cmds": [" ", None]}, 'needs "cmds" or "command"'),
        ({"cmds": ["ls"], "shell": "/tmp/own"}, '"shell" must be one of bash, sh'),
        ({"cmds": ["ls", {"echo": "a"}]}, '"cmds" must be a string or a list of strings'),
        ({"cmds": 5}, '"cmds" must be a string or a list of strings'),
        ({"cmds": ["ls"], "cwd": 5}, '"cwd" must be a string'),
        ({"cmds": ["ls"], "cwd": "/no/such"}, "cannot run in the folder /no/such: No such file or directory"),
        ({"cmds": ["ls\0"]}, "command 1 has a NUL character"),
        ({"cmds": ["ls", "\ud800"]}, "command 2 has a lone surrogate"),
        ({"cmds": ["#" * (MAX_TEXT_BYTES + 1)]}, "command 1 has 131,072 bytes, over 131,071"),
        ({"cmds": ["ls"], "env": "A=1"}, '"env" must be a mapping'),
        ({"cmds": ["ls"], "env": {"A-B": 1}}, '"env" has an invalid variable name'),
        ({"cmds": ["ls"], "input": {"1": 1}}, '"input" has an invalid variable name'),
        ({"cmds": ["ls"], "env": {"A": "x" * MAX_TEXT_BYTES}}, 'the variable A of "env" has 131,073 bytes'),
    ],
)
async def test_a_wrong_call_is_refused_without_its_values(config: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await TOOL.run(request("shell", **config), Context())
    assert message in str(caught.value)
    assert "A=1" not in str(caught.value)


async def test_the_longest_texts_are_passed() -> None:
    command = "echo ${#A};#"
    output = await output_of(command + "#" * (MAX_TEXT_BYTES - len(command)), env={"A": "x" * (MAX_TEXT_BYTES - 2)})
    assert output == f"{MAX_TEXT_BYTES - 2}\n"


async def test_variables_that_are_too_much_together_are_a_wrong_call() -> None:
    with pytest.raises(ConfigError, match="cannot run bash: Argument list too long"):
        await run("ls", env={f"A{n}": "x" * 100_000 for n in range(50)})


async def test_a_shell_that_is_not_installed_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="bash is not installed on the machine of the worker"):
        await run("ls")


# ---- environment -----------------------------------------------------------------------------------------------------


async def test_values_reach_commands_as_variables_and_are_never_run() -> None:
    inputs = {"name": "$(touch made); '\"\n `id`", "list": [1, {"a": None}], "none": None, "yes": True, "n": 1.5}
    output = await output_of('printf "%s|" "$name" "$list" "$none" "$yes" "$n"; ls', input=inputs)
    assert output == f"{inputs['name']}|{json.dumps(inputs['list'])}||true|1.5|"


async def test_env_comes_before_input_and_both_before_the_credential() -> None:
    output = await output_of(
        "echo $TOKEN $A $B", auth="api", input={"A": "input", "B": "input", "TOKEN": "own"}, env={"B": "env"}
    )
    assert output == "own input env\n"


async def test_nothing_of_the_worker_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_CREDENTIAL_PG", "hidden")
    names = {line.partition("=")[0] for line in (await output_of("env")).splitlines()}
    assert "PATH" in names
    assert not [name for name in names if name.startswith("NOETL")]


async def test_a_credential_is_in_the_environment() -> None:
    assert await output_of('test "$TOKEN" = hush-hush-token && env | grep -c hush', auth="api") == "1\n"
    with pytest.raises(CredentialError):
        await run("env", auth="unknown")


async def test_it_works_in_a_folder_of_its_own_that_is_gone_afterwards() -> None:
    folder = await output_of("pwd > $TMPDIR/f; mkdir -p a/b; touch a/b/c; cat f")
    assert "noetl-task-" in folder
    assert not exists(folder.strip())


async def test_it_works_in_another_folder(task_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await output_of("echo x > here; pwd", cwd=str(task_folder)) == f"{task_folder}\n"
    assert (task_folder / "here").read_text() == "x\n"


# ---- output ----------------------------------------------------------------------------------------------------------


async def test_endless_output_is_drained_and_truncated_with_a_warning() -> None:
    outcome = await run("head -c 5000000 /dev/zero | tr '\\0' x; echo end >&2")
    assert outcome.result["stdout"] == "x" * MAX_OUTPUT_BYTES
    assert outcome.result["stderr"] == "end\n"
    assert outcome.meta == {
        "warning": f"stdout has 5,000,000 bytes, and the result only the first {MAX_OUTPUT_BYTES:,} of them"
    }


@pytest.mark.parametrize("shift", [0, 5, len(TOKEN) - 1])
async def test_a_secret_that_the_truncation_divides_is_masked(shift: int) -> None:
    before = MAX_OUTPUT_BYTES - shift
    outcome = await run(f"head -c {before} /dev/zero | tr '\\0' x; echo $TOKEN; head -c 99999 /dev/zero", auth="api")
    assert set(outcome.result["stdout"]) <= {"x", "*"}


@pytest.mark.parametrize("shift", [0, 1, 1000, 3998])
async def test_no_part_of_a_secret_is_in_the_end_of_a_long_output(shift: int) -> None:
    """What is kept of the end begins anywhere in the text."""
    context = Context(api={"type": "bearer", "token": "".join(f"{n:04}" for n in range(1000))})
    command = f"yes $TOKEN | head -n 100 | tr -d '\\n' >&2; head -c {shift} /dev/zero | tr '\\0' x >&2; exit 1"
    outcome = await TOOL.run(request("shell", "api", cmds=command), context)
    assert outcome.error is not None
    assert set(outcome.error.message.removeprefix("the command ended with status 1: ")) <= {"*", "x"}


@pytest.mark.skipif("landlock" not in ACTIVE, reason=ISOLATION)
@pytest.mark.parametrize(
    "command",
    [
        "cat /etc/shadow",
        "ls /root /tmp",
        "touch /tmp/made",
        "cat /proc/1/environ",
        "kill -0 1",
        "exec 3<>/dev/tcp/127.0.0.1/22",
    ],
)
async def test_a_task_cannot_access_files_outside_its_folder(command: str) -> None:
    outcome = await run(command)
    assert outcome.error is not None
    assert any(word in outcome.result["stderr"] for word in ("denied", "not permitted", "Read-only"))
