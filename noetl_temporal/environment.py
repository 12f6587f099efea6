"""The settings of a deployment in the environment, for code that does not import Temporal (else config.py)."""

from __future__ import annotations

import os

from noetl_activities.postgres.dsn import DsnError, dsn_location
from noetl_activities.variables import DSN_VARIABLE

__all__ = ["NO_CATALOG", "SIGNING_KEY_VARIABLE", "dsn_from_environment"]

SIGNING_KEY_VARIABLE = "NOETL_SIGNING_KEY_FILE"
"""Names the file with the key with which runs and calls are signed (signing.py)."""

NO_CATALOG = f"the catalog is in Postgres: set {DSN_VARIABLE} to its DSN"
"""The message of the error if the catalog is needed and the environment has no DSN."""


def dsn_from_environment() -> str | None:
    """Return the DSN of the event log's Postgres; None if it is not set. Raises DeploymentError for an invalid DSN, so
    that the driver, whose errors quote parts of it, does not parse it.
    """
    dsn = os.environ.get(DSN_VARIABLE)
    try:
        if dsn:
            dsn_location(dsn)
    except DsnError as error:
        from noetl_temporal.deployment import dsn_error  # imports the database driver

        raise dsn_error(error) from None
    return dsn
