"""The kinds of errors: what ``error.kind`` may be, and after which of them the same call may succeed (semantics.md 19).

A kind says what happened, not which tool it happened to. Tools, activities and the machine ask this table whether an
error is retryable, and the reference prints it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["ERROR_KINDS", "SQL", "ErrorKind", "http_kind", "is_retryable", "sql_kind"]

SQL = "sql_"
"""Before the class of an SQLSTATE, its first two characters."""


class ErrorKind(NamedTuple):
    """A kind of error.

    ``when`` it is the kind of an error. Where only errors with some codes are retryable, ``codes`` has them.
    """

    when: str
    is_retryable: bool = False
    codes: frozenset[str] = frozenset()


ERROR_KINDS: Mapping[str, ErrorKind] = MappingProxyType(
    {
        "rate_limit": ErrorKind("an http server answered 429", True),
        "auth": ErrorKind("the login was refused: an http server answered 401 or 403, a database has SQLSTATE 28xxx"),
        "not_found": ErrorKind("an http server answered 404"),
        "client_error": ErrorKind(
            "an http server answered with another status below 500, such as a redirect that was not followed, or "
            "redirected endlessly",
            codes=frozenset({"HTTP_408", "HTTP_425"}),
        ),
        "server_error": ErrorKind("an http server answered 5xx, or a body that cannot be unpacked", True),
        "timeout": ErrorKind("the call, step, loop or playbook timed out", True),
        "connection": ErrorKind("no connection, or it was lost; the process of DuckDB ended", True),
        "dns": ErrorKind("the name of the server is unknown, or cannot be looked up", True),
        "tls": ErrorKind("no TLS with the server: its certificate is not valid, or it does not speak TLS"),
        "sql_40": ErrorKind(
            "the database rolled the transaction back: a deadlock, a conflict with another transaction",
            codes=frozenset({"40001", "40P01", "TransactionException"}),
        ),
        "sql_53": ErrorKind("the database lacks resources: connections, memory, disk", True),
        "sql_55": ErrorKind("the object is not in the state that the statement needs", codes=frozenset({"55P03"})),
        "sql_58": ErrorKind("the database cannot read or write a file", codes=frozenset({"IOException"})),
        f"{SQL}<class>": ErrorKind(
            "the database refused the statement; the class is that of its SQLSTATE: `sql_22` a value that does not "
            "fit, `sql_23` a constraint, `sql_42` a syntax error, an unknown name or a missing privilege"
        ),
        "exception": ErrorKind("Python code raised, or its process ended without a result"),
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
        "worker_lost": ErrorKind("no worker finished the call: six were lost running it", True),
        "lease_lost": ErrorKind("a row of a cursor belongs to another claimer: its lease had expired"),
        "loop_lost": ErrorKind("the workflow or frame of the loop ended without a report"),
        "unknown_outcome": ErrorKind(
            "a call with `idempotent: false` was lost: it is unknown whether it took effect",
        ),
        "cancelled": ErrorKind("the run, the step or the call was cancelled"),
        "internal": ErrorKind("a fault of noetl, or of the deployment"),
        "tool": ErrorKind("a tool gives no other kind"),
    }
)

_UNKNOWN = ErrorKind("a kind of a tool's own")
_STATE = re.compile(r"[0-9A-Z]{5}")
_NO_CLASS = "XX"
"""The class of internal errors."""

_NOT_REACHED = frozenset({"57P01", "57P02", "57P03"})
"""The server shuts down, or starts."""

_HTTP_KINDS: Mapping[int, str] = MappingProxyType({401: "auth", 403: "auth", 404: "not_found", 429: "rate_limit"})


def is_retryable(kind: str, code: str | None = None) -> bool:
    """Whether the same call may succeed after this error."""
    found = ERROR_KINDS.get(kind, _UNKNOWN)
    return found.is_retryable or code in found.codes


def http_kind(status: int) -> str:
    """Return the error kind of an HTTP status other than 2xx."""
    return _HTTP_KINDS.get(status, "server_error" if status >= 500 else "client_error")


def sql_kind(state: str, message: str = "") -> str:
    """Return the error kind of an SQLSTATE; an invalid one counts as an internal error of the database."""
    if state.startswith("08") or state in _NOT_REACHED:
        return "connection"
    if state.startswith("28"):
        return "auth"
    if state == "57014" and "timeout" in message:
        return "timeout"
    return SQL + (state[:2] if _STATE.fullmatch(state) else _NO_CLASS)
