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
from dev.simulate.tasks import Chance, random_amount, random_seconds
from noetl_compiler.graph import Circuit, Graph
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine.circuit_state import CircuitState, Limits
from noetl_temporal.machine.circuits import limits_of
from noetl_temporal.machine.commands import CallTool, ChunkInput, Emit, LoadValue, RunChunk
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.facts import ChunkFinished, ToolFinished
from noetl_temporal.machine.ids import escape_name

__all__ = ["check_breakers", "has_breakers", "with_breakers"]

LIKELY = 0.2
"""The probability that some tasks of a playbook have a circuit."""

WAITS = ("wait", "approval")
REFUSED = "the circuit breaker of"
"""A part of the message of a refused call."""


# ---- playbooks -------------------------------------------------------------------------------------------------------


def with_breakers(text: str, seed: int) -> str:
    """The playbook with circuits of tasks, of steps, or of all."""
    source = random.Random(f"{seed}/breakers")
    if source.random() >= LIKELY or not text.startswith("{"):
        return text
    made: dict[str, Any] = json.loads(text)
    chance = Chance(source)
    if made.get("apiVersion") != "noetl.io/v10":
        return text
    if chance.once(0.15):
        spec = made.setdefault("executor", {}).setdefault("spec", {})
        spec.setdefault("policy", {})["circuit"] = _random_circuit(chance)
    for step in made["workflow"]:
        if chance.once(0.1):
            step.setdefault("spec", {}).setdefault("policy", {})["circuit"] = _random_circuit(chance)
        for task in step["tool"] if isinstance(step.get("tool"), list) else ():
            if task["kind"] not in WAITS and chance.once(0.5):
                task.setdefault("spec", {}).setdefault("policy", {})["circuit"] = _random_circuit(chance)
    return json.dumps(made, ensure_ascii=False, indent=1)


def _random_circuit(chance: Chance) -> dict[str, Any]:
    made: dict[str, Any] = {"failures": random_amount(chance, 1, 3)}
    if chance.once(0.3):
        made["window"] = random_seconds(chance, 20)
    if chance.once(0.7):
        made["probe"] = random_seconds(chance, 10)
    return made


# ---- the invariant ---------------------------------------------------------------------------------------------------


@dataclass
class ObservedCircuit:
    """One circuit in one machine: the times of the failures that count, since when it is open, and the call that
    probes. ``announced``: the log has just said that the next call is the probe. ``expected`` is the type of the event
    that must follow.
    """

    limits: Limits
    failures: list[int] = field(default_factory=list[int])
    opened: int = 0
    probing: str = ""
    announced: bool = False
    expected: str = ""

    def ended(self, call: str, at: int, *, failed: bool) -> None:
        """Note the end of a call; ``expected`` becomes the event that the log must have next."""
        if self.opened:
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
        return bool(self.opened) and (bool(self.probing) or probe is None or at < self.opened + probe)


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


def _limits(circuit: Circuit, scope: dict[str, Any]) -> Limits | None:
    """Return None if the numbers are invalid: then no call is made."""
    try:
        return limits_of(circuit, scope)
    except TemplateFailure:
        return None


def _check(trace: MachineTrace, step: str, label: str, limits: Limits | None) -> None:
    requested = [request.call for turn in trace.turns for request in turn.commands if isinstance(request, CallTool)]
    calls = {call.id for call in requested if (call.step, call.task) == (step, label) and call.store is None}
    place = f"{step}/{label}"
    if limits is None:
        if calls:
            raise Finding("a call is made whose circuit has no limits", place)
        return
    refused = {event.ends for event in trace.events if REFUSED in str(event.error)}
    observed = _circuit_before(trace, f"{step}/{escape_name(label)}", limits)
    for number, turn in enumerate(trace.turns):
        _apply_end(observed, turn.fact, calls)
        for command in turn.commands:
            if isinstance(command, CallTool) and command.call.id in calls:
                _check_call(observed, command.call.id, turn.fact.at, f"{command.call.id}, in turn {number}")
            elif isinstance(command, Emit) and command.event.node == label and command.event.meta["step"] == step:
                _check_event(observed, command.event, refused, f"{command.event.type} of {place}, in turn {number}")
        if observed.expected:
            raise Finding("a change of a circuit is not logged", f"{observed.expected} of {place}, in turn {number}")
    _check_report(trace, f"{step}/{escape_name(label)}", observed)


def _apply_end(observed: ObservedCircuit, fact: Any, calls: set[str]) -> None:
    """A call that a stop cancelled counts as nothing, and is no longer a probe."""
    if not isinstance(fact, ToolFinished) or fact.call_id not in calls:
        return
    if not fact.cancelled:
        observed.ended(fact.call_id, fact.at, failed=fact.report.outcome["status"] == "error")
    elif observed.probing == fact.call_id:
        observed.probing = ""


def _circuit_before(trace: MachineTrace, name: str, limits: Limits) -> ObservedCircuit:
    """Return the circuit as earlier chunks reported it."""
    known: CircuitState | None = trace.given.circuits.get(name) if trace.name else None
    return ObservedCircuit(limits) if known is None else ObservedCircuit(limits, list(known.failures), known.opened)


def _check_call(observed: ObservedCircuit, call: str, at: int, place: str) -> None:
    if observed.refuses(at):
        raise Finding("an open circuit lets a call through", place)
    if bool(observed.opened) != observed.announced:
        raise Finding("a probe is not logged", place)
    observed.probing, observed.announced = call if observed.opened else "", False


def _check_event(observed: ObservedCircuit, event: DomainEvent, refused: set[int | None], place: str) -> None:
    match event.type:
        case "circuit.opened" | "circuit.closed":
            if event.type != observed.expected:
                raise Finding(
                    "a circuit changes without a cause", f"{place}, expected {observed.expected or 'nothing'}"
                )
            observed.opened = event.at if event.type == "circuit.opened" else 0
            observed.failures = observed.failures if observed.opened else []
            observed.probing = observed.expected = ""
        case "circuit.probed":
            observed.announced = True
        case "task.started" if event.id in refused and not observed.refuses(event.at):
            raise Finding("a circuit refuses a call that it may not", place)
        case _:
            pass


def _check_report(trace: MachineTrace, name: str, observed: ObservedCircuit) -> None:
    """Check that a chunk reports the state that its circuits have at its end."""
    if trace.name and trace.report is not None and not trace.terminated:
        circuit = trace.report.circuits.get(name)
        if (0 if circuit is None else circuit.opened) != observed.opened:
            raise Finding(
                "a chunk reports another circuit", f"{name} of {trace.name}: {circuit}, open since {observed.opened}"
            )


def _check_handover(run_trace: RunTrace) -> None:
    """Check that a chunk begins with the latest circuits that ended chunks of its loop have reported."""
    known: dict[str, dict[str, CircuitState]] = {}
    loops: dict[str, str] = {}
    for turn in run_trace.main.turns:
        fact: Any = turn.fact
        if isinstance(fact, ChunkFinished):
            circuits = known.setdefault(loops[fact.chunk_id], {})
            for name, circuit in fact.report.circuits.items():
                if name not in circuits or circuit.ended > circuits[name].ended:
                    circuits[name] = circuit
        for command in turn.commands:
            if isinstance(command, RunChunk):
                loops[command.chunk_id] = command.input.loop_id
                if command.input.circuits != known.get(command.input.loop_id, {}) and not _repeats_a_loop(
                    command.input
                ):
                    raise Finding("a chunk begins with other circuits than those before it left", command.chunk_id)


def _repeats_a_loop(given: ChunkInput) -> bool:
    """A loop that repeats another continues with its circuits."""
    return not given.run.endswith("#1")
