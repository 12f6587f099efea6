"""TLS to Postgres, with the meaning that libpq gives ``sslmode``, and nothing read from the worker's environment.

The driver would send the certificate and the key that lie in ``~/.postgresql`` or that PGSSLCERT names to any host.
A playbook may name the file of authorities: OpenSSL would wait for a pipe, and read a device without an end.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from noetl_activities.errors import CredentialError
from noetl_compiler.regular_file import read_regular

__all__ = ["MODES", "Attempt", "declined", "tls_attempts"]

MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")

MAX_BYTES = 4 * 1024 * 1024
"""Of a file of authorities; a system's own has 0.2 MB."""

Attempt: TypeAlias = "ssl.SSLContext | Literal[False]"


def tls_attempts(mode: str, authorities: str | None) -> Sequence[Attempt]:
    """What to connect with, in order; a later one only where the server declined TLS. ``authorities`` is a PEM file,
    the system's where none is named. Raises CredentialError.
    """
    if mode == "disable":
        return (False,)
    if mode in ("allow", "prefer"):
        return _context("require", None), False
    return (_context(mode, authorities),)


@functools.lru_cache(maxsize=64)
def _context(mode: str, authorities: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = mode == "verify-full"
    if mode == "require" and authorities is None:
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        if authorities in (None, "system"):
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=read_regular(Path(authorities), MAX_BYTES).decode("ascii", "ignore"))
    except (OSError, ValueError) as error:
        raise CredentialError("sslrootcert is not a file with certificates (PEM)") from error
    return context


def declined(error: OSError) -> bool:
    """Whether the server refused TLS, which asyncpg reports only in its message."""
    return type(error) is ConnectionError and "rejected SSL upgrade" in str(error)
