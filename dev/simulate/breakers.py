"""Circuit breakers in random playbooks, and whether an open circuit lets no call through but its probes.

They have a random order of their own, so that a playbook without circuits stays the same. The law counts the calls of
each task itself, from their outcomes: it does not use the machine's own report (semantics.md 22b).
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from dev.simulate.run_trace import Finding, MachineTrace, RunTrace
from dev.simulate.tasks import Chance, an_amount, some_seconds
from noetl_compiler.graph import Circuit, Graph
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine.circuit_state import CircuitState, Limits
from noetl_temporal.machine.circuits import limits_of
from noetl_temporal.machine.commands import CallTool, ChunkInput, Emit, LoadValue, RunChunk
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.events import ChunkFinished, ToolFinished
from noetl_temporal.machine.ids import escaped

__all__ = ["check_breakers", "has_breakers", "with_breakers"]

LIKELY = 0.2
"""Of a playbook: that some of its tasks have a circuit."""

WAITS = ("wait", "approval")
REFUSED = "the circuit breaker of"
"""In the message of a call that is not made."""


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
        spec.setdefault("policy", {})["circuit"] = _a_circuit(chance)
    for step in made["workflow"]:
        if chance.once(0.1):
            step.setdefault("spec", {}).setdefault("policy", {})["circuit"] = _a_circuit(chance)
        for task in step["tool"] if isinstance(step.get("tool"), list) else ():
            if task["kind"] not in WAITS and chance.once(0.5):
                task.setdefault("spec", {}).setdefault("policy", {})["circuit"] = _a_circuit(chance)
    return json.dumps(made, ensure_ascii=False, indent=1)


def _a_circuit(chance: Chance) -> dict[str, Any]:
    made: dict[str, Any] = {"failures": an_amount(chance, 1, 3)}
    if chance.once(0.3):
        made["window"] = some_seconds(chance, 20)
    if chance.once(0.7):
        made["probe"] = some_seconds(chance, 10)
    return made


# ---- the law ---------------------------------------------------------------------------------------------------------


@dataclass
class Seen:
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
        """A call ended: what the log must have now is ``expected``."""
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
        """Whether a call that is about to begin must not be made."""
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
    _handed_on(run_trace)


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
    """None where the numbers cannot be used: then no call is made."""
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
    seen = _seen_before(trace, f"{step}/{escaped(label)}", limits)
    for number, turn in enumerate(trace.turns):
        _ended(seen, turn.fact, calls)
        for command in turn.commands:
            if isinstance(command, CallTool) and command.call.id in calls:
                _call_begins(seen, command.call.id, turn.fact.at, f"{command.call.id}, in turn {number}")
            elif isinstance(command, Emit) and command.event.node == label and command.event.meta["step"] == step:
                _logged(seen, command.event, refused, f"{command.event.type} of {place}, in turn {number}")
        if seen.expected:
            raise Finding("a change of a circuit is not logged", f"{seen.expected} of {place}, in turn {number}")
    _reported(trace, f"{step}/{escaped(label)}", seen)


def _ended(seen: Seen, fact: Any, calls: set[str]) -> None:
    """A call that a stop cancelled counts as nothing, and is no longer a probe."""
    if not isinstance(fact, ToolFinished) or fact.call_id not in calls:
        return
    if not fact.cancelled:
        seen.ended(fact.call_id, fact.at, failed=fact.report.outcome["status"] == "error")
    elif seen.probing == fact.call_id:
        seen.probing = ""


def _seen_before(trace: MachineTrace, name: str, limits: Limits) -> Seen:
    """As the chunks before left it."""
    known: CircuitState | None = trace.given.circuits.get(name) if trace.name else None
    return Seen(limits) if known is None else Seen(limits, list(known.failures), known.opened)


def _call_begins(seen: Seen, call: str, at: int, place: str) -> None:
    if seen.refuses(at):
        raise Finding("an open circuit lets a call through", place)
    if bool(seen.opened) != seen.announced:
        raise Finding("a probe is not logged", place)
    seen.probing, seen.announced = call if seen.opened else "", False


def _logged(seen: Seen, event: DomainEvent, refused: set[int | None], place: str) -> None:
    match event.type:
        case "circuit.opened" | "circuit.closed":
            if event.type != seen.expected:
                raise Finding("a circuit changes without a cause", f"{place}, expected {seen.expected or 'nothing'}")
            seen.opened = event.at if event.type == "circuit.opened" else 0
            seen.failures = seen.failures if seen.opened else []
            seen.probing = seen.expected = ""
        case "circuit.probed":
            seen.announced = True
        case "task.started" if event.id in refused and not seen.refuses(event.at):
            raise Finding("a circuit refuses a call that it may not", place)
        case _:
            pass


def _reported(trace: MachineTrace, name: str, seen: Seen) -> None:
    """A chunk reports its circuits as they are when it ends."""
    if trace.name and trace.report is not None and not trace.terminated:
        circuit = trace.report.circuits.get(name)
        if (0 if circuit is None else circuit.opened) != seen.opened:
            raise Finding(
                "a chunk reports another circuit", f"{name} of {trace.name}: {circuit}, open since {seen.opened}"
            )


def _handed_on(run_trace: RunTrace) -> None:
    """A chunk begins with the circuits of the chunks of its loop that have ended: of each circuit, the latest."""
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
                if command.input.circuits != known.get(command.input.loop_id, {}) and not _is_repeated(command.input):
                    raise Finding("a chunk begins with other circuits than those before it left", command.chunk_id)


def _is_repeated(given: ChunkInput) -> bool:
    """A loop that repeats another continues with its circuits."""
    return not given.run.endswith("#1")
