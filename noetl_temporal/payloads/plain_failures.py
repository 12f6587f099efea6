"""Converts failures without the tracebacks that people who read them in Temporal do not need."""

from __future__ import annotations

from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter, PayloadConverter
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from noetl_temporal.naming import PLAYBOOK_CANCELLED, PLAYBOOK_FAILED, REFUSED_REQUEST, RUN_BUSY

__all__ = ["PlainFailureConverter"]

_REPORTS = frozenset({PLAYBOOK_FAILED, PLAYBOOK_CANCELLED, REFUSED_REQUEST, RUN_BUSY})


class PlainFailureConverter(DefaultFailureConverter):
    """Drops the traceback of exceptions that report an outcome: it is that of the code that raises them."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """See temporalio.converter.FailureConverter."""
        super().to_failure(exception, payload_converter, failure)
        if isinstance(exception, ApplicationError) and _is_report(exception):
            failure.stack_trace = ""


def _is_report(error: ApplicationError) -> bool:
    """Whether the failure reports the outcome of a playbook, or of an attempt that is retried."""
    return error.type in _REPORTS or error.category is ApplicationErrorCategory.BENIGN
