"""Read ``spec.idempotency_key``: the header in which each HTTP call sends a unique key."""

from __future__ import annotations

import re

from noetl_compiler.codes import Code
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.language.tools import HEADER_NAME, sends_headers
from noetl_compiler.syntax import Name

__all__ = ["read_call_idempotency_key", "read_default_idempotency_key"]

_KEY = "idempotency_key"
_HEADER_NAME = re.compile(HEADER_NAME)

_RESERVED_HEADERS = frozenset(
    {"authorization", "connection", "content-length", "content-type", "cookie", "host", "te", "transfer-encoding"}
)
"""Headers with a defined meaning, which cannot carry a key."""


def read_default_idempotency_key(spec: Fields) -> Name | None:
    """Read the header that a spec declares for all its calls; those that are not sent by HTTP ignore it."""
    header = spec.scalar(_KEY)
    if header is None:
        return None
    hint = "write the name of a header, such as Idempotency-Key"
    if not isinstance(header.value, str) or not _HEADER_NAME.fullmatch(header.text):
        spec.report.error(Code.WRONG_VALUE, header.span, f'"{header.text}" is not the name of a header', hint)
        return None
    if header.text.lower() in _RESERVED_HEADERS:
        spec.report.error(Code.WRONG_VALUE, header.span, f'the header "{header.text}" cannot carry a key', hint)
        return None
    return Name(header.text, header.span)


def read_call_idempotency_key(spec: Fields, kind: str) -> Name | None:
    """Read the header in the spec of one call. Its tool must send headers, unless it is a workbook call."""
    header = read_default_idempotency_key(spec)
    if header is None or kind == "workbook" or sends_headers(kind):
        return header
    spec.ignore(_KEY, reason=f"only http calls send headers, and this is a {kind} call")
    return None
