"""Payloads of a worker that an attacker without its key has forged, changed, moved or recombined."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

from msgspec import json
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import ActivitySerializationContext, DataConverter, WorkflowSerializationContext
from temporalio.exceptions import ApplicationError, FailureError

from dev.attack.attack import Attack, AttackClass
from noetl_temporal.machine.call import StoredRef, ToolCall, ToolReport
from noetl_temporal.machine.facts import ChunkReport, PayloadRef
from noetl_temporal.messages.attempt_details import Details
from noetl_temporal.messages.frame import FrameDetails, FrameEnd
from noetl_temporal.messages.run_input import RunInput, RunReport
from noetl_temporal.payloads.codec import data_converter, worker_converter
from noetl_temporal.payloads.signed_converter import RefusedValue
from noetl_temporal.payloads.signing import SIGNATURE
from noetl_temporal.payloads.stored_values import reference
from noetl_temporal.workflows.loop_run import LoopEnd

__all__ = ["CLASS"]

KEY, ANOTHER_KEY = b"k" * 32, b"K" * 32
EVIL = "canary-4711"
"""A marker in forged values: code that sees it has accepted a forgery."""

VALUES: tuple[tuple[Any, Any], ...] = (
    (ToolCall("1", "1/k", "s", "t", "python", 1, config={"code": "honest"}), ToolCall),
    (ToolReport({"status": "ok", "result": "honest"}), ToolReport),
    (RunInput(1, "honest", "1", "d"), RunInput),
    (RunReport("completed", 1, "honest"), RunReport),
    (FrameEnd(ChunkReport("ok", ["honest"]), "honest"), FrameEnd),
    (LoopEnd(ChunkReport("ok", ["honest"])), LoopEnd),
    (StoredRef((), 1), StoredRef),
    ([PayloadRef("honest", 1)], list[PayloadRef]),
    (Details((), last_segment="honest"), None),
    (FrameDetails(head="honest"), None),
)
"""Values, each with the type hint that the SDK passes for it; for heartbeats it passes none."""

CONTEXT: dict[str, Any] = {
    "namespace": "default", "workflow_id": "w", "workflow_type": "t", "activity_type": "a", "activity_id": "1",
    "activity_task_queue": "q", "is_local": False,
}  # fmt: skip


class _Guard:
    """The key with which the worker reads, None without a guard."""

    key: bytes | None = KEY


def _converter(key: bytes | None, **context_fields: Any) -> DataConverter:
    context = ActivitySerializationContext(**(CONTEXT | context_fields))
    return worker_converter(data_converter(None, key)).with_context(context)


def _in_workflow(key: bytes | None) -> DataConverter:
    return worker_converter(data_converter(None, key)).with_context(WorkflowSerializationContext("default", "w"))


def _sign(*values: Any, converter: DataConverter | None = None) -> list[Payload]:
    """Sign values as an honest worker does."""
    return list((converter or _converter(KEY)).payload_converter.to_payloads(values))


def _encode(*values: Any) -> list[Payload]:
    return list(data_converter().payload_converter.to_payloads(values))


# ---- forgeries: an honest list and a forged one of the same kind become what is sent -------------------------------


class Lists(NamedTuple):
    """``honest`` is signed with the worker's key. The others have the forged ``value``: ``unsigned``, signed
    with the key for another context (``elsewhere``), and signed with another key.
    """

    honest: list[Payload]
    unsigned: list[Payload]
    elsewhere: list[Payload]
    another_key: list[Payload]
    value: Any


def _with_signature(payloads: list[Payload], signature: bytes) -> list[Payload]:
    payloads[0].metadata[SIGNATURE] = signature
    return payloads


def _of_honest(lists: Lists, _rng: random.Random) -> list[Payload]:
    return _with_signature(lists.unsigned, lists.honest[0].metadata[SIGNATURE])


def _truncated_signature(lists: Lists, rng: random.Random) -> list[Payload]:
    return _with_signature(lists.unsigned, lists.honest[0].metadata[SIGNATURE][: rng.randrange(16)])


def _random_bytes(lists: Lists, rng: random.Random) -> list[Payload]:
    return _with_signature(lists.unsigned, rng.randbytes(rng.choice((1, 15, 16, 17, 32, 64))))


def _flipped_bit(lists: Lists, rng: random.Random) -> list[Payload]:
    """Correct except for one bit, which a partial comparison would accept."""
    signature = bytearray(_sign(lists.value)[0].metadata[SIGNATURE])
    signature[rng.randrange(len(signature))] ^= 1 << rng.randrange(8)
    return _with_signature(lists.unsigned, bytes(signature))


def _plain_digest(lists: Lists, rng: random.Random) -> list[Payload]:
    """A signature without a key, which anyone who knows the algorithm can compute."""
    data = lists.unsigned[0].data
    return _with_signature(lists.unsigned, rng.choice((hashlib.sha256(data).digest()[:16], hashlib.md5(data).digest())))


def _with_one_more(lists: Lists, _rng: random.Random) -> list[Payload]:
    """The signed value stands behind the forged one."""
    return [*_of_honest(lists, _rng), *lists.honest]


def _beside_honest(lists: Lists, _rng: random.Random) -> list[Payload]:
    """A forged argument behind an honest one."""
    return [*lists.honest, *lists.unsigned]


def _of_another_encoding(lists: Lists, rng: random.Random) -> list[Payload]:
    lists.unsigned[0].metadata["encoding"] = rng.choice(
        (b"json/plain", b"noetl/unread", b"noetl/unread-0", b"JSON/PLAIN")
    )
    return _of_honest(lists, rng)


def _named_as_stored(lists: Lists, _rng: random.Random) -> list[Payload]:
    """A value that says it is a reference to the honest one."""
    key = hashlib.sha256(lists.honest[0].SerializeToString(deterministic=True)).hexdigest()
    [reference_payload] = _sign(reference(key))
    lists.unsigned[0].metadata["messageType"] = reference_payload.metadata["messageType"]
    return _of_honest(lists, _rng)


FORGERIES: dict[str, Callable[[Lists, random.Random], list[Payload]]] = {
    "unsigned": lambda lists, _rng: lists.unsigned,
    "with an empty signature": lambda lists, _rng: _with_signature(lists.unsigned, b""),
    "with the signature of another value": _of_honest,
    "with a part of a signature": _truncated_signature,
    "with random bytes for a signature": _random_bytes,
    "with a signature in which one bit is wrong": _flipped_bit,
    "with a digest for a signature": _plain_digest,
    "signed with another key": lambda lists, _rng: lists.another_key,
    "signed for another place": lambda lists, _rng: lists.elsewhere,
    "before a signed value": _with_one_more,
    "behind a signed value": _beside_honest,
    "of another encoding": _of_another_encoding,
    "named as a stored value": _named_as_stored,
}
OTHER_CONTEXTS: tuple[dict[str, Any], ...] = (
    *({"namespace": "n"}, {"namespace": ""}, {"workflow_id": "v"}, {"workflow_id": "W"}, {"workflow_id": "w "}),
    *({"activity_id": "2"}, {"activity_id": "11"}, {"activity_id": ""}, {"is_local": True}, {"activity_id": "1,"}),
    *({"workflow_id": None}, {"workflow_id": "default", "namespace": "w"}, {"activity_id": "call 1"}),
)


def _attack(number: int, forgery: str, other_context: int, seed: int) -> Attack:
    description = f"{VALUES[number][0].__class__.__name__} {number} {forgery}, {OTHER_CONTEXTS[other_context]}, {seed}"
    return Attack(description, partial(_gets_through, number, forgery, other_context, seed))


def _gets_through(number: int, forgery: str, other_context: int, seed: int) -> bool:
    value, hint = VALUES[number]
    forged = _forge(value)
    lists = Lists(
        _sign(value),
        _encode(forged),
        _sign(forged, converter=_converter(KEY, **OTHER_CONTEXTS[other_context])),
        _sign(forged, converter=_converter(ANOTHER_KEY)),
        forged,
    )
    return _is_accepted(_converter(_Guard.key), FORGERIES[forgery](lists, random.Random(seed)), hint)


def _forge(value: Any) -> Any:
    """Return the value with its text replaced, or its number if it has no text."""
    kind: Any = list[PayloadRef] if isinstance(value, list) else value.__class__
    text = json.encode(value).replace(b"honest", EVIL.encode()).replace(b'"bytes":1', b'"bytes":4711')
    forged: Any = json.decode(text, type=kind)
    return forged


def _is_accepted(converter: DataConverter, payloads: Sequence[Payload], hint: Any) -> bool:
    """Whether a value reaches the worker's code."""
    try:
        value = converter.payload_converter.from_payloads(payloads, None if hint is None else [hint])
    except ApplicationError as error:
        if not error.non_retryable:
            raise
        return False
    return not isinstance(value[0], RefusedValue)


# ---- what is signed as one kind, and words of failures --------------------------------------------------------------


def _other_kind(signed_kind: int, requested_kind: int) -> Attack:
    """A signed value where one of another kind is asked for, with the fields that both have."""
    description = f"value {signed_kind} for value {requested_kind}, signed here"
    return Attack(description, partial(_is_accepted_as, signed_kind, requested_kind))


def _is_accepted_as(signed_kind: int, requested_kind: int) -> bool:
    [payload] = _sign(VALUES[signed_kind][0])
    converter = _converter(_Guard.key)
    hint = VALUES[requested_kind][1]
    if _Guard.key is None:
        payload = _encode(VALUES[requested_kind][0])[0]
    return _is_accepted(converter, [payload], hint)


WORDS = ("; rm -rf /", "'; DROP TABLE event; --", "{{ ''.__class__ }}", "$(id)", "\x1b[2J")
DISGUISES = ("plain", "unsigned attributes", "another's signature", "text as attributes", "signed elsewhere")


def _failure(rng: random.Random) -> Attack:
    words, disguise = rng.choice(WORDS), rng.choice(DISGUISES)
    text = f"{words} {EVIL} {rng.randrange(1000)}"
    return Attack(f"failure, {disguise}: {text}", partial(_is_quoted, text, disguise))


def _is_quoted(text: str, disguise: str) -> bool:
    """Whether the words of a forged failure are shown to a workflow."""
    converter, failure = _in_workflow(_Guard.key), _failure_of(text, _in_workflow(None))
    if disguise == "unsigned attributes":
        failure.encoded_attributes.CopyFrom(_encode({"digest": text})[0])
    elif disguise == "another's signature":
        failure.encoded_attributes.CopyFrom(_failure_of("honest", _in_workflow(KEY)).encoded_attributes)
    elif disguise == "text as attributes":
        failure.encoded_attributes.CopyFrom(_sign(text)[0])
    elif disguise == "signed elsewhere":
        failure.encoded_attributes.CopyFrom(_failure_of(text, _converter(KEY)).encoded_attributes)
    error = converter.failure_converter.from_failure(failure, converter.payload_converter)
    return EVIL in f"{error} {getattr(error, 'type', '')} {getattr(error, 'details', '')}"


def _failure_of(text: str, converter: DataConverter) -> Failure:
    failure = Failure()
    error: FailureError = ApplicationError(text, text, type=text)
    converter.failure_converter.to_failure(error, converter.payload_converter, failure)
    return failure


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    """Each forgery in turn; every fifth is a value of another kind, and every tenth a failure."""
    names = list(FORGERIES)
    for index in range(count):
        if index % 10 == 9:
            yield _failure(rng)
        elif index % 5 == 3:
            signed_kind, requested_kind = rng.sample(range(len(VALUES) - 2), 2)
            yield _other_kind(signed_kind, requested_kind)
        else:
            number, other_context = rng.randrange(len(VALUES)), rng.randrange(len(OTHER_CONTEXTS))
            yield _attack(number, names[index % len(names)], other_context, rng.randrange(1 << 16))


def _disable_guard() -> AbstractContextManager[object]:
    """A worker without a key."""
    return patch.object(_Guard, "key", None)


CLASS = AttackClass(
    "signatures",
    _attacks,
    (
        *(_attack(number, forgery, 0, 1) for number, forgery in enumerate(list(FORGERIES)[:8])),
        Attack("failure", partial(_is_quoted, f"; rm -rf / {EVIL}", "plain")),
    ),
    _disable_guard,
)
