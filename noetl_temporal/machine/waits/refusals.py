"""Validates signals and decisions before they are accepted: pure functions of the machine's state.

``unapplied_facts`` are those of accepted requests that the machine has not applied yet: two approvals may arrive with
one workflow task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from noetl_compiler.graph import Graph, Json
from noetl_compiler.language.payload_schema import form_schema, payload_error
from noetl_temporal.machine.facts import (
    Decided,
    Fact,
    PauseRequested,
    RetryRequested,
    Signalled,
    SkipRequested,
    UnpauseRequested,
    WaitOpened,
)
from noetl_temporal.machine.state import PlaybookState
from noetl_temporal.machine.waits.matching import matching_wait, signals_of
from noetl_temporal.machine.waits.wait import Signal, Wait

__all__ = [
    "MAX_QUEUED_BYTES",
    "MAX_QUEUED_SIGNALS",
    "MAX_REQUESTS",
    "MAX_SIGNAL_BYTES",
    "decision_refusal",
    "is_repeated",
    "open_waits",
    "remember_request",
    "signal_refusal",
]

MAX_QUEUED_SIGNALS = 100
"""Maximum number of signals of one name that are queued until a step waits for them."""

MAX_SIGNAL_BYTES = 16_384
"""Maximum size of the payload of a signal, or of a form, as JSON."""

MAX_KEY_CHARACTERS = 1_000

MAX_QUEUED_BYTES = 500_000
"""Maximum size of the payloads of all queued signals: they are copied when a run continues as new."""

_REQUESTS = Signalled | Decided | PauseRequested | UnpauseRequested | RetryRequested | SkipRequested
"""The facts of requests."""

MAX_REQUESTS = 500
"""How many request ids a run remembers. Ids increase with time, so an id below all of them counts as repeated."""


def is_repeated(request_id: int, state: PlaybookState, unapplied_facts: Iterable[Fact]) -> bool:
    """Whether the request was accepted before."""
    request_ids = (fact.request_id for fact in unapplied_facts if isinstance(fact, _REQUESTS))
    return request_id <= state.oldest_request_id or request_id in state.request_ids or request_id in request_ids


def remember_request(request_id: int, state: PlaybookState) -> None:
    """Remember an accepted request, and forget the oldest if there are too many."""
    state.request_ids.append(request_id)
    if len(state.request_ids) > MAX_REQUESTS:
        state.oldest_request_id = min(state.request_ids)
        state.request_ids.remove(state.oldest_request_id)


def signal_refusal(graph: Graph, state: PlaybookState, signal: Signal, unapplied_facts: Sequence[Fact]) -> str | None:
    """Return why the signal is refused; None if it is accepted."""
    signals = signals_of(graph)
    if signal.name not in signals:
        available = f"its signals are {', '.join(sorted(signals))}" if signals else "it waits for no signals"
        return f"no step waits for the signal {signal.name!r}: {available}"
    if state.phase == "ended":
        return "the run has ended"
    size = _size(signal.data)
    if size > MAX_SIGNAL_BYTES:
        limit = f"at most {MAX_SIGNAL_BYTES:,} are allowed"
        return f"the payload has {size:,} bytes; {limit}: store it elsewhere and send its location"
    if signal.key is not None and len(signal.key) > MAX_KEY_CHARACTERS:
        return f"the key has {len(signal.key):,} characters; at most {MAX_KEY_CHARACTERS:,} are allowed"
    earlier_signals = [fact.signal for fact in unapplied_facts if isinstance(fact, Signalled)]
    return payload_error(signal.data, signals[signal.name]) or _queue_refusal(state, signal, earlier_signals)


def _queue_refusal(state: PlaybookState, signal: Signal, earlier_signals: Iterable[Signal]) -> str | None:
    """Return why the signal cannot be queued; None if it can, or if an open wait takes it. ``earlier_signals`` take
    waits first.
    """
    waits = list(state.waits.values())
    queued_signals = [earlier for queue in state.queued_signals.values() for earlier in queue]
    for earlier in earlier_signals:
        wait = matching_wait(earlier, waits)
        if wait is None:
            queued_signals.append(earlier)
        else:
            waits.remove(wait)
    if matching_wait(signal, waits) is not None:
        return None
    if sum(earlier.name == signal.name for earlier in queued_signals) >= MAX_QUEUED_SIGNALS:
        return f"{MAX_QUEUED_SIGNALS} signals {signal.name!r} are queued already, and no step has read them"
    if sum(_size(earlier.data) for earlier in queued_signals) + _size(signal.data) > MAX_QUEUED_BYTES:
        return f"the queued signals have {MAX_QUEUED_BYTES:,} bytes already, and no step has read them"
    return None


def open_waits(state: PlaybookState, unapplied_facts: Iterable[Fact]) -> Mapping[str, Wait]:
    """Return the open waits by id, including those in unapplied reports of chunks."""
    new_waits = (fact.wait for fact in unapplied_facts if isinstance(fact, WaitOpened))
    return {**{wait.id: wait for wait in new_waits if wait.id not in state.sent_answers}, **state.waits}


def decision_refusal(state: PlaybookState, decision: Decided, unapplied_facts: Sequence[Fact]) -> str | None:
    """Return why an approval or rejection is refused; None if it is accepted."""
    wait = open_waits(state, unapplied_facts).get(decision.wait_id)
    is_decided = any(isinstance(fact, Decided) and fact.wait_id == decision.wait_id for fact in unapplied_facts)
    if wait is None or wait.kind != "approval" or is_decided:
        return "nothing waits for this approval: it was decided, has timed out, or the run has ended"
    if not decision.by:
        return "the decision does not say who decides"
    if _size(decision.form) > MAX_SIGNAL_BYTES:
        return f"the form has over {MAX_SIGNAL_BYTES:,} bytes"
    refusals = (_approver_refusal(wait, decision), _form_refusal(wait.form, decision))
    return "; ".join(refusal for refusal in refusals if refusal) or None


def _approver_refusal(wait: Wait, decision: Decided) -> str | None:
    if not wait.approvers or decision.by in wait.approvers:
        return None
    return f"{decision.by!r} may not decide {wait.name}: its approvers are {', '.join(wait.approvers)}"


def _form_refusal(form: Mapping[str, Any], decision: Decided) -> str | None:
    """Return why the form is refused; None if it is accepted. A rejection needs no form."""
    schema = form_schema(form)
    return payload_error(decision.form, schema if decision.approved else {**schema, "required": []}, "form")


def _size(value: Json) -> int:
    return len(msgspec.json.encode(value))
