"""Runs one quantum circuit in its own process, which isolation/ starts and sandboxes, because Qiskit's parsers open any
file that a circuit includes.

The call is ``{provider, backend, circuit, shots, params, seed, tags, login}`` as JSON. Writes ``{result}`` to the
descriptor named by argv[1], or ``{kind, message}`` where it fails; kinds are those of language/error_kinds.
"""

# Qiskit has no types.
# pyright: basic

from __future__ import annotations

import difflib
import json
import os
import sys
import warnings
from importlib import import_module
from importlib.metadata import version

from noetl_activities.isolation.supervisor import start_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OPTIMIZATION = 1
"""Qiskit's own default for circuits that are transpiled for a machine."""

_VERSION_3 = "OPENQASM 3"
_ERRORS = (
    # (class of the error or of one it derives from, kind)
    ("IBMNotAuthorizedError", "auth"),
    ("IBMAccountError", "auth"),
    ("InvalidAccountError", "auth"),
    ("ConnectionError", "connection"),
    ("Timeout", "timeout"),
    ("RequestsApiError", "server_error"),
    ("IBMRuntimeError", "server_error"),
)


class CallError(Exception):
    """The call is invalid."""


def main() -> None:
    """Called in the process that becomes the supervisor of the task."""
    given, _ = start_task()
    out = os.fdopen(int(sys.argv[1]), "w")
    os.set_inheritable(out.fileno(), False)
    warnings.simplefilter("ignore")  # Qiskit warns of its own deprecations
    try:
        answer: dict[str, Any] = {"result": run(json.loads(given))}
    except CallError as error:
        answer = {"kind": "config", "message": str(error)}
    except Exception as error:
        answer = {"kind": kind_of(error), "message": f"{type(error).__name__}: {error}"}
    out.write(json.dumps(answer))
    out.close()


def run(call: dict[str, Any]) -> dict[str, Any]:
    """Return the result of the tool. Raises CallError and Qiskit's errors."""
    circuit = bound(parsed(call["circuit"]), call["params"])
    backend = machine(call)
    transpiler = import_module("qiskit.transpiler")
    passes = transpiler.generate_preset_pass_manager(
        optimization_level=OPTIMIZATION, backend=backend, seed_transpiler=call["seed"]
    )
    try:
        fitted = passes.run(circuit)
    except transpiler.TranspilerError as error:
        raise CallError(f"the circuit does not fit on {call['backend']}: {error}") from None
    job = sampler(call, backend).run([fitted], shots=call["shots"])
    counts = job.result()[0].join_data().get_counts()
    return {"job_id": job.job_id(), "counts": dict(sorted(counts.items())), "metadata": facts(call, backend)}


def parsed(text: str) -> Any:
    """Return the circuit of an OpenQASM text of version 2 or 3. Raises CallError."""
    language = "qiskit.qasm3" if _VERSION_3 in text else "qiskit.qasm2"
    try:
        circuit = import_module(language).loads(text)
    except Exception as error:  # the parsers have errors of their own, which share no class
        raise CallError(f"the circuit cannot be read: {error}") from None
    if not circuit.clbits or "measure" not in circuit.count_ops():
        raise CallError("the circuit measures nothing: add bits and a measure statement")
    return circuit


def bound(circuit: Any, params: Any) -> Any:
    """Return the circuit with values for its parameters: by name, or in their order. Raises CallError."""
    names = [parameter.name for parameter in circuit.parameters]
    given = dict(zip(names, params, strict=False)) if isinstance(params, list) else params
    if set(given) != set(names) or len(given) != len(params):
        raise CallError(f"the circuit has the parameters {', '.join(names) or 'none'}; params has {listed(params)}")
    return circuit.assign_parameters(given) if names else circuit


def listed(params: Any) -> str:
    return f"{len(params)} values" if isinstance(params, list) else ", ".join(params) or "none"


def machine(call: dict[str, Any]) -> Any:
    """Return the backend of this name. Raises CallError."""
    if call["provider"] == "ibm":
        return service(call["login"]).backend(call["backend"])
    models = import_module("qiskit_ibm_runtime.fake_provider").FakeProviderForBackendV2().backends()
    name = call["backend"] if call["backend"].startswith("fake_") else f"fake_{call['backend']}"
    by_name = {model.name: model for model in models}
    if name not in by_name:
        near = difflib.get_close_matches(name, by_name, n=3)
        raise CallError(f"there is no local backend {name!r}: there are {', '.join(near or sorted(by_name))}")
    return by_name[name]


def service(login: dict[str, Any]) -> Any:
    known = {key: login[key] for key in ("token", "instance", "channel") if login.get(key)}
    return import_module("qiskit_ibm_runtime").QiskitRuntimeService(**known)


def sampler(call: dict[str, Any], backend: Any) -> Any:
    made = import_module("qiskit_ibm_runtime").Sampler(mode=backend)
    made.options.environment.job_tags = call["tags"]
    if call["provider"] != "ibm":
        made.options.simulator.seed_simulator = call["seed"]
    return made


def facts(call: dict[str, Any], backend: Any) -> dict[str, Any]:
    """Return the metadata needed to reproduce and compare the run."""
    properties = backend.properties()
    return {
        "provider": call["provider"],
        "backend": backend.name,
        "backend_version": backend.backend_version,
        "calibrated_at": properties.last_update_date.isoformat() if properties else None,
        "shots": call["shots"],
        "seed": call["seed"],
        "params": call["params"],
        "tags": call["tags"],
        "transpiler": {"optimization_level": OPTIMIZATION, "seed": call["seed"], "qiskit": version("qiskit")},
    }


def kind_of(error: Exception) -> str:
    names = {class_.__name__ for class_ in type(error).__mro__}
    return next((kind for name, kind in _ERRORS if name in names), "exception")
