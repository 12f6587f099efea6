"""What the environment says of a deployment, for who does not speak to Temporal (else config.py)."""

from __future__ import annotations

import os

__all__ = ["DSN_VARIABLE", "SIGNING_KEY_VARIABLE", "dsn_from_environment"]

DSN_VARIABLE = "NOETL_POSTGRES"

SIGNING_KEY_VARIABLE = "NOETL_SIGNING_KEY_FILE"
"""Names the file with the key under which runs and calls are signed (signing.py)."""


def dsn_from_environment() -> str | None:
    """The DSN of the event log's Postgres, None when there is none."""
    return os.environ.get(DSN_VARIABLE)
