"""The quantum tool: Qiskit with models of real machines, in its sandboxed process."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.outcome import Outcome
from noetl_activities.quantum import tool as quantum
from noetl_activities.quantum.tool import TOOL

from .conftest import Context, request

BELL = """
OPENQASM 3.0;
include "stdgates.inc";
qubit[2] q;
bit[2] c;
h q[0];
cx q[0], q[1];
c = measure q;
"""
OLD_BELL = """
OPENQASM 2.0;
include "qelib1.inc";
qreg q[2];
creg c[2];
h q[0];
cx q[0], q[1];
measure q -> c;
"""
TURNED_CIRCUIT = """
OPENQASM 3.0;
include "stdgates.inc";
input float[64] theta;
qubit[1] q;
bit[1] c;
rx(theta) q[0];
c = measure q;
"""
PI = 3.141592653589793


async def run(circuit: str, auth: Any = None, **config: Any) -> Outcome:
    config_: dict[str, Any] = {"backend": "fake_manila", "circuit": circuit, "seed": 7, "shots": 200, **config}
    return await TOOL.run(request("quantum", auth, **config_), Context(ibm={"type": "ibm_quantum", "token": "t0ken"}))


@pytest.mark.parametrize("circuit", [BELL, OLD_BELL])
async def test_a_circuit_is_measured(circuit: str) -> None:
    outcome = await run(circuit, tags=["bell"])
    assert outcome.error is None
    counts, facts = outcome.result["counts"], outcome.result["metadata"]
    assert sum(counts.values()) == 200
    assert counts["00"] + counts["11"] > 150
    assert outcome.result["job_id"]
    assert facts["transpiler"]["optimization_level"] == 1
    assert (facts["backend"], facts["provider"], facts["shots"], facts["seed"]) == ("fake_manila", "local", 200, 7)
    assert (facts["tags"], facts["params"]) == (["bell"], {})
    assert facts["backend_version"]
    assert facts["calibrated_at"].startswith("20")


async def test_a_seed_makes_it_repeatable() -> None:
    first, second, other = [(await run(BELL, seed=seed)).result["counts"] for seed in (1, 1, 2)]
    assert first == second != other


@pytest.mark.parametrize("params", [{"theta": PI}, [PI], {"theta": str(PI)}])
async def test_parameters_are_bound(params: Any) -> None:
    counts = (await run(TURNED_CIRCUIT, params=params)).result["counts"]
    assert counts["1"] > 150


async def test_the_name_of_a_model_may_be_that_of_its_machine() -> None:
    assert (await run(BELL, backend="manila")).result["metadata"]["backend"] == "fake_manila"


@pytest.mark.parametrize(
    ("circuit", "config", "why"),
    [
        (BELL, {"backend": "manilla"}, "there is no local backend 'fake_manilla': there are fake_manila"),
        ("OPENQASM 3.0; nonsense", {}, "the circuit cannot be read"),
        ("nonsense", {}, "the circuit cannot be read"),
        ('OPENQASM 2.0; include "qelib1.inc"; qreg q[1]; h q[0];', {}, "the circuit measures nothing"),
        (BELL.replace("[2]", "[9]"), {}, "the circuit does not fit on fake_manila"),
        (TURNED_CIRCUIT, {}, "the circuit has the parameters theta; params has none"),
        (TURNED_CIRCUIT, {"params": [1, 2]}, "params has 2 values"),
        (TURNED_CIRCUIT, {"params": {"phi": 1}}, "params has phi"),
        (BELL, {"params": {"phi": 1}}, "the circuit has the parameters none"),
        (TURNED_CIRCUIT, {"params": {"theta": "pi"}}, "params has 'pi': the value of a parameter is a number"),
        (TURNED_CIRCUIT, {"params": "theta"}, "params must be a mapping"),
        (BELL, {"shots": -1}, "shots is -1: write a whole number from 1 to 10,000,000"),
        (BELL, {"shots": 1.5}, "shots is 1.5"),
        (BELL, {"seed": -1}, "seed is -1"),
        (BELL, {"tags": "bell"}, "tags must be a list"),
        (BELL, {"provider": "aws"}, "provider is 'aws': write local or ibm"),
        (BELL, {"backend": None}, "a quantum task needs a backend"),
        ("", {}, "a quantum task needs a circuit"),
    ],
)
async def test_invalid_calls_are_refused(circuit: str, config: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        await run(circuit, **config)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the worker, with what would show in a parser's message."""
    file = tmp_path / "secret"
    file.write_text("hush_hush_token q;")
    return file


async def test_a_circuit_reads_no_files_of_the_worker(secret: Path) -> None:
    with pytest.raises(ConfigError) as failure:
        await run(f'OPENQASM 2.0; include "{secret}"; qreg q[1]; creg c[1]; measure q -> c;')
    assert "hush_hush_token" not in str(failure.value)


async def test_ibm_needs_a_credential() -> None:
    with pytest.raises(CredentialError, match="a credential of type ibm_quantum"):
        await run(BELL, provider="ibm", backend="ibm_fez")


def _nothing(_module: str) -> None:
    """No module is found."""


async def test_without_qiskit_the_call_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantum, "find_spec", _nothing)
    with pytest.raises(ConfigError, match=r'pip install "noetl-temporal\[quantum\]"'):
        await run(BELL)


async def test_a_cancelled_call_ends_its_process() -> None:
    long_call = asyncio.create_task(run(BELL, shots=10_000_000))
    await asyncio.sleep(2)
    started = time.monotonic()
    long_call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await long_call
    assert time.monotonic() - started < 30
