"""The environment of Temporal, Postgres and their tools: nothing of the user's own.

What the user's environment holds (secrets, PG* and TEMPORAL_* settings of other servers, LD_PRELOAD) is not for them,
and can be read from a running process by whoever reads its memory.
"""

from __future__ import annotations

import os
import tempfile

from noetl_temporal.stack.home import Home

__all__ = ["server_environment"]


def server_environment(home: Home) -> dict[str, str]:
    """All variables that a server gets. Their settings files, if they look for any, would be in the stack's folder."""
    return {"PATH": os.defpath, "HOME": str(home.root), "LC_ALL": "C", "TMPDIR": tempfile.gettempdir()}
