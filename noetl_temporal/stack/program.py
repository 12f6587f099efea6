"""The command line and import path of ``noetl`` for child processes, without the current folder on the import path.

The current folder may be a project from an untrusted source. ``python -m`` puts it first on the import path, so a
``json.py`` in it would replace Python's own; ``-P`` prevents that. Empty and relative entries of PYTHONPATH, usually
from a trailing colon, mean the current folder or one below it, so they are removed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["import_path", "program"]

PATH_VARIABLE = "PYTHONPATH"


def program(*arguments: str) -> list[str]:
    """Return the command line of ``noetl`` with these arguments."""
    return [sys.executable, "-P", "-m", "noetl_temporal.cli", *arguments]


def import_path() -> dict[str, str]:
    """Return PYTHONPATH with its absolute entries only, as an environment."""
    entries = os.environ.get(PATH_VARIABLE, "").split(os.pathsep)
    return {PATH_VARIABLE: os.pathsep.join(entry for entry in entries if Path(entry).is_absolute())}
