"""Encrypts the texts of failures, which may quote values: they are moved to the attributes that the codec encrypts."""

from __future__ import annotations

from temporalio.api.failure.v1 import Failure
from temporalio.converter import PayloadConverter

from noetl_temporal.payloads.encryption import DecryptionError, is_encrypted, missing_key_error
from noetl_temporal.payloads.plain_failures import PlainFailureConverter

__all__ = ["HIDDEN", "EncryptedFailureConverter", "hide_texts", "may_quote_values", "raise_if_encrypted"]

HIDDEN = "Encoded failure"
"""The message of a failure whose texts are hidden, as in the SDK."""


class EncryptedFailureConverter(PlainFailureConverter):
    """Encrypts failures as the SDK's converter does, except those because of a missing key, which must be readable
    without it.
    """

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """See temporalio.converter.FailureConverter."""
        super().to_failure(exception, payload_converter, failure)
        if may_quote_values(failure):
            texts = {"message": failure.message, "stack_trace": failure.stack_trace}
            failure.encoded_attributes.CopyFrom(payload_converter.to_payload(texts))
            hide_texts(failure)

    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        """See temporalio.converter.FailureConverter. Raises DecryptionError, which the SDK would suppress."""
        raise_if_encrypted(failure)
        return super().from_failure(failure, payload_converter)


def may_quote_values(failure: Failure) -> bool:
    """Whether the texts of a failure may quote values: those of our own failures may, those of the server do not."""
    application = failure.application_failure_info
    return failure.HasField("application_failure_info") and application.type != DecryptionError.__name__


def hide_texts(failure: Failure) -> None:
    """Remove the texts of a failure after they were copied to its encoded attributes."""
    failure.message, failure.stack_trace = HIDDEN, ""


def raise_if_encrypted(failure: Failure) -> None:
    """Raise DecryptionError if the texts are still encrypted."""
    if failure.HasField("encoded_attributes") and is_encrypted(failure.encoded_attributes):
        raise missing_key_error(failure.encoded_attributes)
