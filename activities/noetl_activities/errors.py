"""Errors that a tool may raise; the worker converts only these to an outcome.

    ToolError
    ├── ConfigError        the call is invalid: a missing or unknown field, a wrong value
    ├── CredentialError    a named credential is unknown or lacks a field
    └── RefusedError       a guard refused the call (SSRF, path, size)
    FailedError            a system other than that of the tool failed
    ├── SinkError          the database or server of a sink failed
    └── SecretError        a secret store failed

Errors of libraries (httpx, asyncpg, duckdb ...) are mapped to an error outcome inside the tool, with their cause.
"""

from __future__ import annotations

from typing import ClassVar

from noetl_activities.outcome import Outcome

__all__ = [
    "CONNECTION_REFUSED",
    "ConfigError",
    "CredentialError",
    "FailedError",
    "RefusedError",
    "SecretError",
    "SinkError",
    "ToolError",
]

CONNECTION_REFUSED = "connection refused: nothing listens there"
"""The message for a refused connection."""


class ToolError(Exception):
    """The tool could not make the call. Not retryable: the same call would fail again."""

    kind: ClassVar[str] = "tool"


class ConfigError(ToolError):
    """The call is invalid: the message names the field, and what is expected."""

    kind = "config"


class CredentialError(ToolError):
    """A credential is missing or incomplete."""

    kind = "credential"


class RefusedError(ToolError):
    """A guard refused this call: the message names the setting that would allow it."""

    kind = "refused"


class FailedError(Exception):
    """A system other than that of the tool failed: ``outcome`` has its error, and whether to retry."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error.message if outcome.error else "")
        self.outcome = outcome


class SinkError(FailedError):
    """A sink could not store the data."""


class SecretError(FailedError):
    """A secret could not be fetched from its store."""
