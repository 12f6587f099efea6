"""Adds circuit breakers to random playbooks, and checks that an open circuit lets no call through but its probes.

They have random numbers of their own, so that playbooks without circuits do not change. The check counts the calls of
each task itself, from their outcomes: it does not use the machine's own report (semantics.md 22b).
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from dev.simulate.run_trace import Finding, MachineTrace, RunTrace
from dev.simulate.tasks import RandomChoices, random_amount, random_seconds
from noetl_compiler.graph import Circuit, Graph
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine.circuit_state import CircuitLimits, CircuitState
from noetl_temporal.machine.circuits import limits_of
from noetl_temporal.machine.commands import CallTool, ChunkInput, Emit, LoadValue, RunChunk
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.facts import ChunkFinished, ToolFinished
from noetl_temporal.machine.ids import escape_name

__all__ = ["check_breakers", "has_breakers", "with_breakers"]

PROBABILITY = 0.2
"""The probability that some tasks of a playbook have a circuit."""

WAITS = ("wait", "approval")
REFUSED = "the circuit breaker of"
"""A part of the message of a refused call."""


# ---- playbooks -------------------------------------------------------------------------------------------------------


def with_breakers(text: str, seed: int) -> str:
    """The playbook with circuits of tasks, of steps, or of all."""
    source = random.Random(f"{seed}/breakers")
    if source.random() >= PROBABILITY or not text.startswith("{"):
        return text
    document: dict[str, Any] = json.loads(text)
    rng = RandomChoices(source)
    if document.get("apiVersion") != "noetl.io/v10":
        return text
    if rng.occurs(0.15):
        spec = document.setdefault("executor", {}).setdefault("spec", {})
        spec.setdefault("policy", {})["circuit"] = _random_circuit(rng)
    for step in document["workflow"]:
        if rng.occurs(0.1):
            step.setdefault("spec", {}).setdefault("policy", {})["circuit"] = _random_circuit(rng)
        for task in step["tool"] if isinstance(step.get("tool"), list) else ():
            if task["kind"] not in WAITS and rng.occurs(0.5):
                task.setdefault("spec", {}).setdefault("policy", {})["circuit"] = _random_circuit(rng)
    return json.dumps(document, ensure_ascii=False, indent=1)


def _random_circuit(rng: RandomChoices) -> dict[str, Any]:
    circuit: dict[str, Any] = {"failures": random_amount(rng, 1, 3)}
    if rng.occurs(0.3):
        circuit["window"] = random_seconds(rng, 20)
    if rng.occurs(0.7):
        circuit["probe"] = random_seconds(rng, 10)
    return circuit


# ---- the invariant ---------------------------------------------------------------------------------------------------


@dataclass
class ObservedCircuit:
    """One circuit in one machine: the times of the failures that count, when it opened (0 if closed), and the call that
    probes. ``announced``: the log has just said that the next call is the probe. ``expected`` is the type of the
    event that must follow.
    """

    limits: CircuitLimits
    failures: list[int] = field(default_factory=list[int])
    opened_at: int = 0
    probing: str = ""
    announced: bool = False
    expected: str = ""

    def note_end(self, call: str, at: int, *, failed: bool) -> None:
        """Note the end of a call; ``expected`` becomes the event that the log must have next."""
        if self.opened_at:
            if call == self.probing:
                self.expected = "circuit.opened" if failed else "circuit.closed"
            return
        window = self.limits.window
        if window is not None:
            self.failures = [failure for failure in self.failures if failure > at - window]
        elif not failed:
            self.failures = []
        if failed:
            self.failures.append(at)
            self.expected = "circuit.opened" * (len(self.failures) >= self.limits.failures)

    def refuses(self, at: int) -> bool:
        """Whether a call that is about to begin must be refused."""
        probe = self.limits.probe
        return bool(self.opened_at) and (bool(self.probing) or probe is None or at < self.opened_at + probe)


def check_breakers(run_trace: RunTrace) -> None:
    """Raises Finding. A machine that loads stored values takes some ends of calls later than they came: what it logs
    of those is not compared.
    """
    circuits = _circuits(run_trace.graph)
    if not circuits:
        return
    scope = {"workload": run_trace.graph.workload.data}
    for trace in run_trace.traces.values():
        if not any(isinstance(command, LoadValue) for turn in trace.turns for command in turn.commands):
            for (step, label), circuit in circuits.items():
                _check(trace, step, label, _limits(circuit, scope))
    _check_handover(run_trace)


def has_breakers(graph: Graph) -> bool:
    """Whether the outcome of a run may depend on when its calls failed."""
    return bool(_circuits(graph))


def _circuits(graph: Graph) -> dict[tuple[str, str], Circuit]:
    """Step and task -> circuit."""
    return {
        (step.name, task.label): task.policy.circuit
        for step in graph.steps.values()
        for task in step.tasks
        if task.policy is not None and task.policy.circuit is not None and task.kind not in WAITS
    }


def _limits(circuit: Circuit, scope: dict[str, Any]) -> CircuitLimits | None:
    """Return None if the numbers are invalid: then no call is made."""
    try:
        return limits_of(circuit, scope)
    except TemplateFailure:
        return None


def _check(trace: MachineTrace, step: str, label: str, limits: CircuitLimits | None) -> None:
    calls_in_order = [
        request.call for turn in trace.turns for request in turn.commands if isinstance(request, CallTool)
    ]
    calls = {
        call.id for call in calls_in_order if (call.step, call.task) == (step, label) and call.outcome_to_store is None
    }
    label_in_log = f"{step}/{label}"
    if limits is None:
        if calls:
            raise Finding("a call is made whose circuit has no limits", label_in_log)
        return
    refused_starts = {event.ends for event in trace.events if REFUSED in str(event.error)}
    observed_circuit = _circuit_before(trace, f"{step}/{escape_name(label)}", limits)
    for number, turn in enumerate(trace.turns):
        _apply_end(observed_circuit, turn.fact, calls)
        for command in turn.commands:
            if isinstance(command, CallTool) and command.call.id in calls:
                _check_call(observed_circuit, command.call.id, turn.fact.at, f"{command.call.id}, in turn {number}")
            elif isinstance(command, Emit) and command.event.node == label and command.event.meta["step"] == step:
                _check_event(
                    observed_circuit,
                    command.event,
                    refused_starts,
                    f"{command.event.type} of {label_in_log}, in turn {number}",
                )
        if observed_circuit.expected:
            raise Finding(
                "a change of a circuit is not logged",
                f"{observed_circuit.expected} of {label_in_log}, in turn {number}",
            )
    _check_report(trace, f"{step}/{escape_name(label)}", observed_circuit)


def _apply_end(observed_circuit: ObservedCircuit, fact: Any, calls: set[str]) -> None:
    """A call that a stop cancelled counts as nothing, and is no longer a probe."""
    if not isinstance(fact, ToolFinished) or fact.call_id not in calls:
        return
    if not fact.cancelled:
        observed_circuit.note_end(fact.call_id, fact.at, failed=fact.report.outcome["status"] == "error")
    elif observed_circuit.probing == fact.call_id:
        observed_circuit.probing = ""


def _circuit_before(trace: MachineTrace, name: str, limits: CircuitLimits) -> ObservedCircuit:
    """Return the circuit as earlier chunks reported it."""
    circuit: CircuitState | None = trace.chunk_input.circuits.get(name) if trace.name else None
    return (
        ObservedCircuit(limits)
        if circuit is None
        else ObservedCircuit(limits, list(circuit.failure_times), circuit.opened_at)
    )


def _check_call(observed_circuit: ObservedCircuit, call: str, at: int, detail: str) -> None:
    if observed_circuit.refuses(at):
        raise Finding("an open circuit lets a call through", detail)
    if bool(observed_circuit.opened_at) != observed_circuit.announced:
        raise Finding("a probe is not logged", detail)
    observed_circuit.probing, observed_circuit.announced = call if observed_circuit.opened_at else "", False


def _check_event(
    observed_circuit: ObservedCircuit, event: DomainEvent, refused_starts: set[int | None], detail: str
) -> None:
    match event.type:
        case "circuit.opened" | "circuit.closed":
            if event.type != observed_circuit.expected:
                raise Finding(
                    "a circuit changes without a cause", f"{detail}, expected {observed_circuit.expected or 'nothing'}"
                )
            observed_circuit.opened_at = event.at if event.type == "circuit.opened" else 0
            observed_circuit.failures = observed_circuit.failures if observed_circuit.opened_at else []
            observed_circuit.probing = observed_circuit.expected = ""
        case "circuit.probed":
            observed_circuit.announced = True
        case "task.started" if event.id in refused_starts and not observed_circuit.refuses(event.at):
            raise Finding("a circuit refuses a call that it may not", detail)
        case _:
            pass


def _check_report(trace: MachineTrace, name: str, observed_circuit: ObservedCircuit) -> None:
    """Check that a chunk reports the state that its circuits have at its end."""
    if trace.name and trace.report is not None and not trace.terminated:
        circuit = trace.report.circuits.get(name)
        if (0 if circuit is None else circuit.opened_at) != observed_circuit.opened_at:
            raise Finding(
                "a chunk reports another circuit",
                f"{name} of {trace.name}: {circuit}, open since {observed_circuit.opened_at}",
            )


def _check_handover(run_trace: RunTrace) -> None:
    """Check that a chunk begins with the latest circuits that ended chunks of its loop have reported."""
    circuits_by_loop: dict[str, dict[str, CircuitState]] = {}
    loops: dict[str, str] = {}
    for turn in run_trace.main.turns:
        fact: Any = turn.fact
        if isinstance(fact, ChunkFinished):
            circuits = circuits_by_loop.setdefault(loops[fact.chunk_id], {})
            for name, circuit in fact.report.circuits.items():
                if name not in circuits or circuit.ended_at > circuits[name].ended_at:
                    circuits[name] = circuit
        for command in turn.commands:
            if isinstance(command, RunChunk):
                loops[command.chunk_id] = command.input.loop_id
                if command.input.circuits != circuits_by_loop.get(command.input.loop_id, {}) and not _repeats_a_loop(
                    command.input
                ):
                    raise Finding("a chunk begins with other circuits than those before it left", command.chunk_id)


def _repeats_a_loop(chunk: ChunkInput) -> bool:
    """A loop that repeats another continues with its circuits."""
    return not chunk.step_run_id.endswith("#1")
