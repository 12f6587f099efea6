"""Signs the messages of failures (signing.py), because they reach templates, and through them shells and SQL.

Anyone who can connect to Temporal can end a pending call with a forged failure. The call then counts as failed, as it
does in Temporal, but the message is dropped.
"""

from __future__ import annotations

import hashlib

import msgspec
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter, PayloadConverter
from temporalio.exceptions import ApplicationError

from noetl_temporal.environment import SIGNING_KEY_VARIABLE
from noetl_temporal.signed_converter import REFUSED

__all__ = ["SignedFailureConverter"]

_SILENT = f"its failure is not signed, so its message is dropped: the sender lacks {SIGNING_KEY_VARIABLE}"


class _Said(msgspec.Struct, frozen=True):
    """The digest of a failure's type and message, signed as any value of ours."""

    digest: str


class SignedFailureConverter(DefaultFailureConverter):
    """Failures of our own code are signed. Of those that the server makes, such as timeouts, only the kind counts.

    The details of a cancellation are the server's own words, never signed: that a call was cancelled before it began.
    """

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """See temporalio.converter.FailureConverter."""
        super().to_failure(exception, payload_converter, failure)
        if failure.HasField("application_failure_info"):
            failure.encoded_attributes.CopyFrom(payload_converter.to_payload(_digest(failure)))

    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        """See temporalio.converter.FailureConverter."""
        if not _is_signed(failure, payload_converter):
            failure = _silenced(failure)
        return super().from_failure(failure, payload_converter)


def _digest(failure: Failure) -> _Said:
    text = msgspec.json.encode((failure.application_failure_info.type, failure.message))
    return _Said(hashlib.sha256(text).hexdigest())


def _is_signed(failure: Failure, payload_converter: PayloadConverter) -> bool:
    if not (failure.HasField("application_failure_info") and failure.HasField("encoded_attributes")):
        return False
    try:
        return payload_converter.from_payload(failure.encoded_attributes, _Said) == _digest(failure)
    except (ApplicationError, KeyError, msgspec.MsgspecError):  # unsigned, none, another's
        return False


def _silenced(failure: Failure) -> Failure:
    found = Failure()
    found.CopyFrom(failure)
    found.message, found.stack_trace = _kind(failure), ""
    found.ClearField("encoded_attributes")
    if found.HasField("application_failure_info"):
        found.message = _SILENT
        found.application_failure_info.type = REFUSED
        found.application_failure_info.ClearField("details")
    if found.HasField("canceled_failure_info"):
        found.canceled_failure_info.ClearField("details")
    return found


def _kind(failure: Failure) -> str:
    """In words, such as ``heartbeat timeout``."""
    timeout = failure.timeout_failure_info.timeout_type
    if failure.HasField("timeout_failure_info") and timeout in TimeoutType.values():
        return TimeoutType.Name(timeout).removeprefix("TIMEOUT_TYPE_").replace("_", " ").lower() + " timeout"
    return (failure.WhichOneof("failure_info") or "failure").removesuffix("_failure_info").replace("_", " ")
