"""TLS for Postgres, with ``sslmode`` as in libpq, and without reading the worker's environment.

The driver would use the client certificate in ``~/.postgresql`` or PGSSLCERT for any host. A playbook may name the file
with certificate authorities, so it must be a regular file: OpenSSL would block on a pipe, and read a device endlessly.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from noetl_activities.errors import CredentialError
from noetl_compiler.regular_file import read_regular

__all__ = ["MODES", "TlsContext", "is_tls_refused", "tls_contexts"]

MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")

MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of a file with certificate authorities; that of a system has 0.2 MB."""

TlsContext: TypeAlias = "ssl.SSLContext | Literal[False]"


def tls_contexts(mode: str, authorities: str | None) -> Sequence[TlsContext]:
    """Return the TLS contexts to try, in order; False is no TLS. A later one is used only if the server refused TLS.
    ``authorities`` is a PEM file, by default that of the system. Raises CredentialError.
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


def is_tls_refused(error: OSError) -> bool:
    """Whether the server refused TLS, which asyncpg reports only in its message."""
    return type(error) is ConnectionError and "rejected SSL upgrade" in str(error)
