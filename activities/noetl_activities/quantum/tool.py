"""The quantum tool: runs a circuit on a machine of IBM Quantum, or on a simulated machine.

Qiskit runs in a sandboxed process, which ends with the call (child.py).
"""

from __future__ import annotations

import json
import math
from importlib.util import find_spec
from typing import cast

from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.exit_status import exit_text
from noetl_activities.isolation.processes import ProcessExit, run_task
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Json, Request, ToolContext
from noetl_activities.tool_spec import built_in
from noetl_compiler.language.tool_fields import DEFAULT_SHOTS, LOCAL, PROVIDERS

__all__ = ["TOOL", "QuantumTool"]

MAX_SHOTS = 10_000_000
"""The maximum that IBM Quantum accepts."""

_CHILD = "noetl_activities.quantum.child"
_QISKIT_RUNTIME = "qiskit_ibm_runtime"
_MAX_SEED = 2**32 - 1
_MAX_MESSAGE_CHARS = 2_000


class QuantumTool:
    """The tool quantum. Its fields:

    ``provider, backend, circuit, shots, params, seed, tags``; ``auth`` for machines of IBM.
    """

    spec = built_in("quantum", max_concurrent="cores")

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return ``{job_id, counts, metadata}``."""
        call = _call(request.config)
        if find_spec(_QISKIT_RUNTIME) is None:
            raise ConfigError('Qiskit is not installed on the worker: pip install "noetl-temporal[quantum]" there')
        if call["provider"] != LOCAL:
            if request.auth is None:
                raise CredentialError("a quantum task of the provider ibm needs auth: a credential of type ibm_quantum")
            call["login"] = dict(await context.credential(request.auth))
        return _outcome(await run_task(_CHILD, json.dumps(call).encode(), context.output), context)


def _call(config: dict[str, Json]) -> dict[str, Json]:
    """Return the validated call for child.py. Raises ConfigError."""
    provider = config.get("provider") or LOCAL
    if provider not in PROVIDERS:
        raise ConfigError(f"provider is {provider!r:.60}: write {' or '.join(PROVIDERS)}")
    for name in ("circuit", "backend"):
        if not isinstance(config.get(name), str) or not config[name].strip():
            raise ConfigError(f"a quantum task needs a {name}: a string")
    seed: Json = config.get("seed")
    return {
        "provider": provider,
        "backend": config["backend"].strip(),
        "circuit": config["circuit"],
        "shots": _whole_number("shots", config.get("shots") or DEFAULT_SHOTS, MAX_SHOTS),
        "params": _params(config.get("params")),
        "seed": None if seed is None else _whole_number("seed", seed, _MAX_SEED, minimum=0),
        "tags": _tags(config.get("tags")),
        "login": {},
    }


def _whole_number(name: str, value: Json, maximum: int, minimum: int = 1) -> int:
    """Return a whole number. Accepts a string with a number, which templates may yield. Raises ConfigError."""
    try:
        number = int(value)
    except (ValueError, TypeError, OverflowError):
        number = -1
    is_fraction = isinstance(value, float) and not value.is_integer()
    if isinstance(value, bool) or is_fraction or not minimum <= number <= maximum:
        raise ConfigError(f"{name} is {value!r:.60}: write a whole number from {minimum} to {maximum:,}")
    return number


def _params(value: Json) -> dict[str, float] | list[float]:
    if isinstance(value, dict):
        return {str(name): _angle(angle) for name, angle in cast("dict[str, Json]", value).items()}
    if isinstance(value, list):
        return [_angle(angle) for angle in cast("list[Json]", value)]
    if value is None:
        return {}
    raise ConfigError("params must be a mapping of parameter to value, or a list of values")


def _angle(value: Json) -> float:
    try:
        number = float(value)
    except (ValueError, TypeError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise ConfigError(f"params has {value!r:.60}: the value of a parameter is a number")
    return number


def _tags(value: Json) -> list[str]:
    if value is not None and not isinstance(value, list):
        raise ConfigError("tags must be a list of strings")
    return [str(tag) for tag in cast("list[Json]", value or [])]


def _outcome(process_exit: ProcessExit, context: ToolContext) -> Outcome:
    response: Json = json.loads(process_exit.response) if process_exit.response else None
    if response is None:
        last_line = context.truncate((process_exit.output_start.strip().splitlines() or [""])[-1], _MAX_MESSAGE_CHARS)
        message = f"the process that runs Qiskit ended ({exit_text(process_exit.status)}): {last_line}".rstrip(": ")
        return Outcome("error", error=ErrorInfo("exception", message))
    if "result" in response:
        return Outcome("ok", response["result"])
    if response["kind"] == "config":
        raise ConfigError(context.truncate(response["message"], _MAX_MESSAGE_CHARS))
    return Outcome(
        "error", error=ErrorInfo(response["kind"], context.truncate(response["message"], _MAX_MESSAGE_CHARS))
    )


TOOL = QuantumTool()
