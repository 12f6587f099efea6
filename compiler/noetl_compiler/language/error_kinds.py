"""The kinds of errors: what ``error.kind`` may be, and after which of them the same call may succeed (semantics.md 19).

A kind names the error, whatever the tool. Tools, activities and the machine ask this table whether an
error is retryable, and the reference prints it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["ERROR_KINDS", "SQL_PREFIX", "ErrorKind", "http_kind", "is_retryable", "sql_kind"]

SQL_PREFIX = "sql_"
"""The prefix of the kinds that are named after the class of an SQLSTATE, its first two characters."""


class ErrorKind(NamedTuple):
    """A kind of error.

    ``when`` describes the errors of this kind. If only some codes are retryable, ``codes`` lists them.
    """

    when: str
    is_retryable: bool = False
    codes: frozenset[str] = frozenset()


ERROR_KINDS: Mapping[str, ErrorKind] = MappingProxyType(
    {
        "rate_limit": ErrorKind("an http response had status 429", True),
        "auth": ErrorKind("the login was refused: status 401 or 403 of an http response, SQLSTATE 28xxx of a database"),
        "not_found": ErrorKind("an http response had status 404"),
        "client_error": ErrorKind(
            "an http response had another status below 500, such as that of a redirect that was not followed, or "
            "there were too many redirects",
            codes=frozenset({"HTTP_408", "HTTP_425"}),
        ),
        "server_error": ErrorKind(
            "an http response had a status of 500 or more, or a body that cannot be decompressed", True
        ),
        "timeout": ErrorKind("the call, step, loop or playbook timed out", True),
        "connection": ErrorKind("the connection failed or was lost; the process of DuckDB ended", True),
        "dns": ErrorKind("the name of the server is unknown, or could not be resolved", True),
        "tls": ErrorKind("the TLS handshake failed: the certificate is not valid, or the server does not support TLS"),
        "sql_40": ErrorKind(
            "the database rolled the transaction back: a deadlock, a conflict with another transaction",
            codes=frozenset({"40001", "40P01", "TransactionException"}),
        ),
        "sql_53": ErrorKind("the database lacks resources: connections, memory, disk", True),
        "sql_55": ErrorKind("the object is not in the state that the statement requires", codes=frozenset({"55P03"})),
        "sql_58": ErrorKind("the database cannot read or write a file", codes=frozenset({"IOException"})),
        f"{SQL_PREFIX}<class>": ErrorKind(
            "the database refused the statement; the class is that of its SQLSTATE: `sql_22` a value that does not "
            "fit, `sql_23` a constraint, `sql_42` a syntax error, an unknown name or a missing privilege"
        ),
        "exception": ErrorKind("Python code raised an exception, or its process ended without a result"),
        "config": ErrorKind("the call is invalid: a missing field, an invalid value"),
        "credential": ErrorKind("a credential is unknown, missing, or lacks a field"),
        "refused": ErrorKind("a guard refused the call: an address, a path, a login"),
        "template": ErrorKind("a template cannot be evaluated: an undefined name, an error in it, its budget"),
        "policy": ErrorKind(
            "a rule with `do: fail` failed a success, or gave a `message`; `status` of the final step is `failed`"
        ),
        "circuit_open": ErrorKind("the call was not made: the circuit breaker of its task is open", True),
        "loop": ErrorKind("iterations of the loop failed"),
        "budget": ErrorKind("a step ran a million tasks, or 10,000 steps ran without a call"),
        "too_large": ErrorKind("a value is larger than what can be stored or read"),
        "worker_lost": ErrorKind("six workers were lost while they ran the call", True),
        "lease_lost": ErrorKind("a row of a cursor belongs to another claimer: its lease had expired"),
        "loop_lost": ErrorKind("the workflow or frame of the loop ended without a report"),
        "unknown_outcome": ErrorKind(
            "a call with `idempotent: false` was lost: it is unknown whether it took effect",
        ),
        "cancelled": ErrorKind("the run, the step or the call was cancelled"),
        "internal": ErrorKind("an error in noetl or in the deployment"),
        "tool": ErrorKind("an error of a tool that sets no kind"),
    }
)

_UNKNOWN = ErrorKind("a kind that a tool defines")
_STATE = re.compile(r"[0-9A-Z]{5}")
_INTERNAL_CLASS = "XX"
"""The SQLSTATE class of internal errors."""

_SHUTDOWN_STATES = frozenset({"57P01", "57P02", "57P03"})
"""The states of a server that is shutting down or starting."""

_HTTP_KINDS: Mapping[int, str] = MappingProxyType({401: "auth", 403: "auth", 404: "not_found", 429: "rate_limit"})


def is_retryable(kind: str, code: str | None = None) -> bool:
    """Whether the same call may succeed after this error."""
    error_kind = ERROR_KINDS.get(kind, _UNKNOWN)
    return error_kind.is_retryable or code in error_kind.codes


def http_kind(status: int) -> str:
    """Return the error kind of an HTTP status other than 2xx."""
    return _HTTP_KINDS.get(status, "server_error" if status >= 500 else "client_error")


def sql_kind(state: str, message: str = "") -> str:
    """Return the error kind of an SQLSTATE; an invalid one counts as an internal error of the database."""
    if state.startswith("08") or state in _SHUTDOWN_STATES:
        return "connection"
    if state.startswith("28"):
        return "auth"
    if state == "57014" and "timeout" in message:
        return "timeout"
    return SQL_PREFIX + (state[:2] if _STATE.fullmatch(state) else _INTERNAL_CLASS)
