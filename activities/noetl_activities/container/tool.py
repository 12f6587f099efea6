"""The container tool: runs an image until it exits, with the Docker or Podman of the worker.

The deployment must allow this and choose the engine (NOETL_CONTAINERS), because anyone who may start containers has the
rights of the engine on that machine.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import shutil
import signal
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

from noetl_activities.captured_output import CapturedStream, truncation_warning
from noetl_activities.container.call import ContainerCall, container_call
from noetl_activities.errors import ConfigError, RefusedError
from noetl_activities.http.request import idempotency_key
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import OutputStream, Request, ToolContext
from noetl_activities.tool_spec import built_in

__all__ = ["CONTAINERS_VARIABLE", "ENGINES", "TOOL", "ContainerTool"]

CONTAINERS_VARIABLE = "NOETL_CONTAINERS"
ENGINES = ("docker", "podman")
MAX_CONCURRENT = 16

_MAX_PROCESSES = 512
"""The maximum number of processes in a container."""

_ENGINE_VARIABLES = (
    "PATH",
    "HOME",
    "XDG_RUNTIME_DIR",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "CONTAINER_HOST",
)
"""The variables that the engine's command inherits from the worker. It gets no variables of the playbook: PATH or
LD_PRELOAD would change what runs on this machine.
"""

_REMOVE_SECONDS = 20.0
_ENGINE_FAILURE = 125
"""The exit status of the engine's command if it could not run the container."""

_UNREACHABLE_ENGINE = ("cannot connect", "connection refused", "is the docker daemon running", "unable to connect")
_MISSING_IMAGE = ("no such image", "not found", "manifest unknown", "pull access denied", "does not exist")


class ContainerTool:
    """The tool container. Its fields:

    ``image, command, args, script, env, input, resources``, or the same below ``runtime``.
    """

    spec = built_in("container", max_concurrent=MAX_CONCURRENT)

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return ``{exit_code, stdout, stderr}``, also for a container that fails: any exit status but 0."""
        engine = _engine()
        if request.auth is not None:
            raise ConfigError("a container task takes no auth: pass what it needs with env, from the keychain")
        call, name = container_call(request), f"noetl-{idempotency_key(request.key, request.repetition)}"
        if context.attempt > 1:
            await _remove_container(engine, name)  # left by a worker that was lost
        stdout, stderr = CapturedStream(), CapturedStream()
        with _environment_file(call.environment) as environment_file:
            async with _start_container(engine, name, _run_arguments(call, name, environment_file)) as process:
                await asyncio.gather(
                    _capture_stream(process.stdout, "stdout", stdout, context),
                    _capture_stream(process.stderr, "stderr", stderr, context),
                )
                code = await process.wait()
        return _outcome(engine, code, stdout, stderr, context)


def _engine() -> str:
    """Return the path of the engine.

    Raises RefusedError if the deployment allows no containers, ConfigError if the engine is not installed.
    """
    engine = os.environ.get(CONTAINERS_VARIABLE, "")
    if engine not in ENGINES:
        choices = " or ".join(ENGINES)
        raise RefusedError(
            f"this worker runs no containers: to allow them, set {CONTAINERS_VARIABLE} to {choices} and restart it"
        )
    path = shutil.which(engine)
    if path is None:
        raise ConfigError(f"{engine} is not installed on the machine of the worker ({CONTAINERS_VARIABLE})")
    return path


def _run_arguments(call: ContainerCall, name: str, environment_file: str) -> list[str]:
    limits = [
        *([f"--memory={call.memory}", f"--memory-swap={call.memory}"] if call.memory is not None else []),
        *([f"--cpus={call.cpus:g}"] if call.cpus is not None else []),
        f"--pids-limit={_MAX_PROCESSES}",
    ]
    options = ["--rm", "--init", f"--name={name}", "--security-opt=no-new-privileges", f"--env-file={environment_file}"]
    return ["run", *options, *limits, call.image, *call.command]


@contextlib.contextmanager
def _environment_file(environment: dict[str, str]) -> Generator[str]:
    """Write the variables to a file that only this account can read: every process can see command arguments."""
    with tempfile.TemporaryDirectory(prefix="noetl-container-") as folder:
        file = Path(folder) / "environment"
        file.touch(0o600)
        file.write_text("".join(f"{name}={value}\n" for name, value in environment.items()), "utf-8")
        yield str(file)


@contextlib.asynccontextmanager
async def _start_container(engine: str, name: str, arguments: list[str]) -> AsyncGenerator[Process]:
    """Start a container. If it still runs at the end of the block, it is removed."""
    process = await asyncio.create_subprocess_exec(
        engine, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=_engine_environment(), start_new_session=True
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(_remove_container(engine, name))
            await process.communicate()


def _engine_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _ENGINE_VARIABLES if name in os.environ}


async def _remove_container(engine: str, name: str) -> None:
    """Stop and remove a container, if it exists. Gives up if the engine does not respond in time."""
    process = await asyncio.create_subprocess_exec(
        engine, "rm", "--force", name, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, env=_engine_environment()
    )
    try:
        async with asyncio.timeout(_REMOVE_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()


async def _capture_stream(
    pipe: asyncio.StreamReader | None, stream: OutputStream, captured_stream: CapturedStream, context: ToolContext
) -> None:
    assert pipe is not None  # noqa: S101 - it was created with a pipe
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while chunk := await pipe.read(65536):
        text = decoder.decode(chunk)
        captured_stream.add(text)
        context.output(stream, text)


def _outcome(engine: str, code: int, stdout: CapturedStream, stderr: CapturedStream, context: ToolContext) -> Outcome:
    last_lines = stderr.last_lines(context) or stdout.last_lines(context)
    if code == _ENGINE_FAILURE:
        message = f"{Path(engine).name} did not run the container: {last_lines}"
        return Outcome("error", error=ErrorInfo(_engine_error_kind(last_lines.lower()), message, code=str(code)))
    result = {"exit_code": code, "stdout": stdout.result_text(context), "stderr": stderr.result_text(context)}
    message = f"the container ended with status {code}" + (f": {last_lines}" if last_lines else "")
    error = ErrorInfo("exception", message, code=str(code)) if code else None
    return Outcome("error" if code else "ok", result, error, truncation_warning(stdout=stdout, stderr=stderr))


def _engine_error_kind(message: str) -> str:
    if any(phrase in message for phrase in _UNREACHABLE_ENGINE):
        return "connection"
    return "not_found" if any(phrase in message for phrase in _MISSING_IMAGE) else "config"


TOOL = ContainerTool()
