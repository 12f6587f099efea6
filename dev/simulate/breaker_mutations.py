"""Safeguards of circuit breakers, disabled one at a time (mutations.py)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dev.simulate.mutation import Mutation, replaced_by, wrapped_by
from noetl_temporal.machine.engine import Engine
from noetl_temporal.machine.loops import chunks
from noetl_temporal.machine.state import state_snapshot
from noetl_temporal.machine.tasks import breaker

__all__ = ["BREAKER_MUTATIONS"]


def _refuses_nothing(call_begins: Any, *arguments: Any) -> Any:
    return call_begins(*arguments)._replace(refusal="")


def _many_probes(call_begins: Any, state: Any, *arguments: Any) -> Any:
    return call_begins(replace(state, probe_call=""), *arguments)


def _probes_at_once(call_begins: Any, state: Any, limits: Any, *arguments: Any) -> Any:
    return call_begins(state, replace(limits, probe=0 if limits.probe else limits.probe), *arguments)


def _never_opens(_: Any, state: Any, *arguments: Any, failed: bool) -> Any:
    del arguments, failed
    return state, ""


def _without_window(call_ended: Any, state: Any, *arguments: Any, failed: bool) -> Any:
    return call_ended(replace(state, limits=replace(state.limits, window=10**12)), *arguments, failed=failed)


def _counts_what_began_before(call_ended: Any, state: Any, call: Any, at: Any, *, failed: bool) -> Any:
    return call_ended(replace(state, probe_call=call) if state.opened_at else state, call, at, failed=failed)


def _keeps_the_probe(state: Any, _: Any) -> Any:
    return state


def _forgets_what_chunks_knew(circuits: Any, _: Any) -> Any:
    return circuits


def _snapshot_without_circuits(self: Any) -> Any:
    return state_snapshot(replace(self.state, circuits={}))


ENGINE: Any = Engine

BREAKER_MUTATIONS = (
    Mutation("22b: an open circuit refuses calls", breaker, "call_begins", wrapped_by(_refuses_nothing)),
    Mutation("22b: one probe at a time", breaker, "call_begins", wrapped_by(_many_probes)),
    Mutation("22b: a probe has its time", breaker, "call_begins", wrapped_by(_probes_at_once)),
    Mutation("22b: failures open a circuit", breaker, "call_ended", wrapped_by(_never_opens)),
    Mutation("22b: failures count within the window", breaker, "call_ended", wrapped_by(_without_window)),
    Mutation("22b: calls from before do not count", breaker, "call_ended", wrapped_by(_counts_what_began_before)),
    Mutation("22b: what is cut off gives its probe back", breaker, "call_cancelled", replaced_by(_keeps_the_probe)),
    Mutation("22b: chunks hand circuits on", chunks, "latest_states", replaced_by(_forgets_what_chunks_knew)),
    Mutation("22b: circuits outlive a snapshot", ENGINE, "snapshot", replaced_by(_snapshot_without_circuits)),
)
"""Each must be detected."""
