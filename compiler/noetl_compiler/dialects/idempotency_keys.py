"""Read ``spec.idempotency_key``: the header in which each HTTP call sends a unique key."""

from __future__ import annotations

import re

from noetl_compiler.codes import Code
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.language.tools import HEADER_NAME, sends_headers
from noetl_compiler.syntax import Name

__all__ = ["read_idempotency_key", "read_own_idempotency_key"]

_KEY = "idempotency_key"
_NAME = re.compile(HEADER_NAME)

_TAKEN = frozenset(
    {"authorization", "connection", "content-length", "content-type", "cookie", "host", "te", "transfer-encoding"}
)
"""Headers with a defined meaning, which cannot carry a key."""


def read_idempotency_key(spec: Fields) -> Name | None:
    """Return the name of the header that a spec declares for its calls."""
    found = spec.scalar(_KEY)
    if found is None:
        return None
    hint = "write the name of a header, such as Idempotency-Key"
    if not isinstance(found.value, str) or not _NAME.fullmatch(found.text):
        spec.report.error(Code.WRONG_VALUE, found.span, f'"{found.text}" is not the name of a header', hint)
        return None
    if found.text.lower() in _TAKEN:
        spec.report.error(Code.WRONG_VALUE, found.span, f'the header "{found.text}" cannot carry a key', hint)
        return None
    return Name(found.text, found.span)


def read_own_idempotency_key(spec: Fields, kind: str) -> Name | None:
    """Read the header in the spec of one call, whose kind must support headers; not checked for workbook calls."""
    found = read_idempotency_key(spec)
    if found is None or kind == "workbook" or sends_headers(kind):
        return found
    spec.ignore(_KEY, why=f"only http calls send headers, and this is a {kind} call")
    return None
