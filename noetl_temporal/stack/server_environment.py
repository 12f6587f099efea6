"""The environment variables of Temporal, Postgres and their tools. None is inherited from the user's environment.

The user's variables (secrets, PG* and TEMPORAL_* settings of other servers, LD_PRELOAD) must not affect the servers,
and could be read from the memory of their processes.
"""

from __future__ import annotations

import os
import tempfile

from noetl_temporal.stack.home import Home

__all__ = ["server_environment"]


def server_environment(home: Home) -> dict[str, str]:
    """Return the environment of a server. Its HOME is the folder of the stack, without settings of the user."""
    return {"PATH": os.defpath, "HOME": str(home.root), "LC_ALL": "C", "TMPDIR": tempfile.gettempdir()}
