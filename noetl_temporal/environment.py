"""What the environment says of the event log, for who does not speak to Temporal (else config.py)."""

from __future__ import annotations

import os

__all__ = ["DSN_VARIABLE", "dsn_from_environment"]

DSN_VARIABLE = "NOETL_POSTGRES"


def dsn_from_environment() -> str | None:
    """The DSN of the event log's Postgres, None when there is none."""
    return os.environ.get(DSN_VARIABLE)
