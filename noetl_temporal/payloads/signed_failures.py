"""Signs the messages of failures (signing.py), because templates can read them, and pass them to shells and SQL.

Anyone who can connect to Temporal can end a pending call with a forged failure. The call then counts as failed, as in
Temporal, but the message is dropped.
"""

from __future__ import annotations

import hashlib

import msgspec
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.failure.v1 import Failure
from temporalio.converter import PayloadConverter
from temporalio.exceptions import ApplicationError

from noetl_temporal.environment import SIGNING_KEY_VARIABLE
from noetl_temporal.payloads.encrypted_failures import hide_texts, may_quote_values, raise_if_encrypted
from noetl_temporal.payloads.plain_failures import PlainFailureConverter
from noetl_temporal.payloads.signed_converter import REFUSED

__all__ = ["SignedEncryptedFailureConverter", "SignedFailureConverter"]

_UNSIGNED_MESSAGE = f"its failure is not signed, so its message is dropped: the sender lacks {SIGNING_KEY_VARIABLE}"


class _SignedText(msgspec.Struct, frozen=True, omit_defaults=True):
    """The signed value in the encoded attributes of a failure: the digest of its type and message, and the texts
    themselves if they are hidden in the failure.
    """

    digest: str
    message: str | None = None
    stack_trace: str = ""


class SignedFailureConverter(PlainFailureConverter):
    """Signs the failures of our own code. Of those that the server creates, such as timeouts, only the kind is used.

    The details of a cancellation come from the server and are not signed, so they are dropped: the call was cancelled
    before it began.
    """

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """See temporalio.converter.FailureConverter."""
        super().to_failure(exception, payload_converter, failure)
        if failure.HasField("application_failure_info"):
            failure.encoded_attributes.CopyFrom(payload_converter.to_payload(self._signed_text(failure)))

    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        """See temporalio.converter.FailureConverter."""
        return super().from_failure(_verify(failure, payload_converter) or _without_message(failure), payload_converter)

    def _signed_text(self, failure: Failure) -> _SignedText:
        return _SignedText(_digest(failure))


class SignedEncryptedFailureConverter(SignedFailureConverter):
    """Signs failures if values are encrypted: their texts are encrypted too (encrypted_failures.py)."""

    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        """See temporalio.converter.FailureConverter. Raises DecryptionError."""
        raise_if_encrypted(failure)
        return super().from_failure(failure, payload_converter)

    def _signed_text(self, failure: Failure) -> _SignedText:
        if not may_quote_values(failure):
            return super()._signed_text(failure)
        signed_text = _SignedText(_digest(failure), failure.message, failure.stack_trace)
        hide_texts(failure)
        return signed_text


def _digest(failure: Failure) -> str:
    text = msgspec.json.encode((failure.application_failure_info.type, failure.message))
    return hashlib.sha256(text).hexdigest()


def _verify(failure: Failure, payload_converter: PayloadConverter) -> Failure | None:
    """Return the failure with its texts; None if it has no valid signature."""
    if not (failure.HasField("application_failure_info") and failure.HasField("encoded_attributes")):
        return None
    try:
        signed_text: _SignedText = payload_converter.from_payload(failure.encoded_attributes, _SignedText)
    except (ApplicationError, KeyError, msgspec.MsgspecError):  # unsigned, missing, or of another type
        return None
    copy = Failure()
    copy.CopyFrom(failure)
    if signed_text.message is not None:
        copy.message, copy.stack_trace = signed_text.message, signed_text.stack_trace
    return copy if signed_text.digest == _digest(copy) else None


def _without_message(failure: Failure) -> Failure:
    """Return the failure without texts and details that anyone may have written."""
    copy = Failure()
    copy.CopyFrom(failure)
    copy.message, copy.stack_trace = _kind(failure), ""
    copy.ClearField("encoded_attributes")
    if copy.HasField("application_failure_info"):
        copy.message = _UNSIGNED_MESSAGE
        copy.application_failure_info.type = REFUSED
        copy.application_failure_info.ClearField("details")
    if copy.HasField("canceled_failure_info"):
        copy.canceled_failure_info.ClearField("details")
    return copy


def _kind(failure: Failure) -> str:
    """Return the kind of a failure in words, such as ``heartbeat timeout``."""
    timeout = failure.timeout_failure_info.timeout_type
    if failure.HasField("timeout_failure_info") and timeout in TimeoutType.values():
        return TimeoutType.Name(timeout).removeprefix("TIMEOUT_TYPE_").replace("_", " ").lower() + " timeout"
    return (failure.WhichOneof("failure_info") or "failure").removesuffix("_failure_info").replace("_", " ")
