"""Runs one quantum circuit in its own process, which isolation/ starts and sandboxes, because Qiskit's parsers open any
file that a circuit includes.

The call is ``{provider, backend, circuit, shots, params, seed, tags, login}`` as JSON. Writes ``{result}`` to the
descriptor named by argv[1], or ``{kind, message}`` for an error; the kinds are those of language/error_kinds.
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
"""Qiskit's default optimization level for circuits that are transpiled for a machine."""

_VERSION_3 = "OPENQASM 3"
_ERRORS = (
    # (class of the error or a base class, kind)
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
    """Run the circuit and write the response. Called in the process that becomes the supervisor of the task."""
    data, _ = start_task()
    out = os.fdopen(int(sys.argv[1]), "w")
    os.set_inheritable(out.fileno(), False)
    warnings.simplefilter("ignore")  # Qiskit warns about deprecations in its own code
    try:
        response: dict[str, Any] = {"result": run(json.loads(data))}
    except CallError as error:
        response = {"kind": "config", "message": str(error)}
    except Exception as error:
        response = {"kind": kind_of(error), "message": f"{type(error).__name__}: {error}"}
    out.write(json.dumps(response))
    out.close()


def run(call: dict[str, Any]) -> dict[str, Any]:
    """Return the result of the tool. Raises CallError and Qiskit's errors."""
    circuit = bind_params(parse_circuit(call["circuit"]), call["params"])
    backend = find_backend(call)
    transpiler = import_module("qiskit.transpiler")
    passes = transpiler.generate_preset_pass_manager(
        optimization_level=OPTIMIZATION, backend=backend, seed_transpiler=call["seed"]
    )
    try:
        transpiled_circuit = passes.run(circuit)
    except transpiler.TranspilerError as error:
        raise CallError(f"the circuit does not fit on {call['backend']}: {error}") from None
    job = create_sampler(call, backend).run([transpiled_circuit], shots=call["shots"])
    counts = job.result()[0].join_data().get_counts()
    return {"job_id": job.job_id(), "counts": dict(sorted(counts.items())), "metadata": metadata_of(call, backend)}


def parse_circuit(text: str) -> Any:
    """Parse OpenQASM, version 2 or 3. Raises CallError."""
    language = "qiskit.qasm3" if _VERSION_3 in text else "qiskit.qasm2"
    try:
        circuit = import_module(language).loads(text)
    except Exception as error:  # the errors of the parsers have no common base class
        raise CallError(f"the circuit cannot be read: {error}") from None
    if not circuit.clbits or "measure" not in circuit.count_ops():
        raise CallError("the circuit measures nothing: add bits and a measure statement")
    return circuit


def bind_params(circuit: Any, params: Any) -> Any:
    """Return the circuit with values for its parameters, by name or in order. Raises CallError."""
    names = [parameter.name for parameter in circuit.parameters]
    values = dict(zip(names, params, strict=False)) if isinstance(params, list) else params
    if set(values) != set(names) or len(values) != len(params):
        raise CallError(
            f"the circuit has the parameters {', '.join(names) or 'none'}; params has {param_names(params)}"
        )
    return circuit.assign_parameters(values) if names else circuit


def param_names(params: Any) -> str:
    return f"{len(params)} values" if isinstance(params, list) else ", ".join(params) or "none"


def find_backend(call: dict[str, Any]) -> Any:
    """Return the backend that the call names. Raises CallError."""
    if call["provider"] == "ibm":
        return open_service(call["login"]).backend(call["backend"])
    models = import_module("qiskit_ibm_runtime.fake_provider").FakeProviderForBackendV2().backends()
    name = call["backend"] if call["backend"].startswith("fake_") else f"fake_{call['backend']}"
    by_name = {model.name: model for model in models}
    if name not in by_name:
        matches = difflib.get_close_matches(name, by_name, n=3)
        raise CallError(f"there is no local backend {name!r}: there are {', '.join(matches or sorted(by_name))}")
    return by_name[name]


def open_service(login: dict[str, Any]) -> Any:
    arguments = {key: login[key] for key in ("token", "instance", "channel") if login.get(key)}
    return import_module("qiskit_ibm_runtime").QiskitRuntimeService(**arguments)


def create_sampler(call: dict[str, Any], backend: Any) -> Any:
    sampler = import_module("qiskit_ibm_runtime").Sampler(mode=backend)
    sampler.options.environment.job_tags = call["tags"]
    if call["provider"] != "ibm":
        sampler.options.simulator.seed_simulator = call["seed"]
    return sampler


def metadata_of(call: dict[str, Any], backend: Any) -> dict[str, Any]:
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
