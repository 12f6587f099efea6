"""Chooses the source of the credentials that playbooks name, by the same rule for every command:

1. The file that ``--credentials`` names, else the one that NOETL_CREDENTIALS names.
2. The environment: ``NOETL_CREDENTIAL_<NAME>``. The embedded stack sets those of its own databases that are not set.

No other file is read: a ``credentials.yaml`` in the folder of a playbook may come from somebody else.
"""

from __future__ import annotations

import os
from pathlib import Path

from noetl_activities.credentials import CredentialSource
from noetl_activities.credentials_file import read_credentials
from noetl_activities.errors import CredentialError
from noetl_activities.variables import CREDENTIALS_VARIABLE
from noetl_compiler.regular_file import require_regular
from noetl_temporal.deployment import DeploymentError

__all__ = ["credential_source"]


def credential_source(file: Path | None = None) -> CredentialSource:
    """Return credentials by name. Raises DeploymentError if NOETL_CREDENTIALS is a relative path, or not a file with
    credentials."""
    return CredentialSource(file or _file_from_environment())


def _file_from_environment() -> Path | None:
    setting = os.environ.get(CREDENTIALS_VARIABLE)
    if not setting:
        return None
    if not Path(setting).is_absolute():
        raise DeploymentError(
            f"{CREDENTIALS_VARIABLE} is {setting!r}, which is a relative path: set it to an absolute path"
        )
    file = Path(setting)
    try:
        require_regular(file, file.stat())
        read_credentials(file)
    except OSError as error:
        raise DeploymentError(f"cannot read {CREDENTIALS_VARIABLE} ({file}): {error.strerror}") from error
    except CredentialError as error:
        raise DeploymentError(f"{CREDENTIALS_VARIABLE}: {error}") from None
    return file
