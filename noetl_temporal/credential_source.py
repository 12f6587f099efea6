"""Where a worker finds the credentials that playbooks name."""

from __future__ import annotations

import os
from pathlib import Path

from noetl_activities.credentials import CredentialSource

__all__ = ["credential_source"]

CREDENTIALS_VARIABLE = "NOETL_CREDENTIALS"


def credential_source(file: Path | None = None) -> CredentialSource:
    """Credentials by name: from ``file`` or the one NOETL_CREDENTIALS names, then from the environment."""
    named = os.environ.get(CREDENTIALS_VARIABLE)
    return CredentialSource(file or (Path(named) if named else None))
