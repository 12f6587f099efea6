"""How to start ``noetl`` as a child process without the current folder on its import path.

The current folder may be a project from an untrusted source. ``python -m`` puts it first on the import path, so a
``json.py`` in it would replace Python's own; ``-P`` prevents that. Empty and relative entries of PYTHONPATH, usually
from a trailing colon, mean the current folder or one below it, so they are removed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["import_path_variable", "noetl_command"]

PATH_VARIABLE = "PYTHONPATH"


def noetl_command(*arguments: str) -> list[str]:
    """Return the command line of ``noetl`` with these arguments."""
    return [sys.executable, "-P", "-m", "noetl_temporal.cli", *arguments]


def import_path_variable() -> dict[str, str]:
    """Return the environment variable PYTHONPATH, reduced to its absolute entries."""
    entries = os.environ.get(PATH_VARIABLE, "").split(os.pathsep)
    return {PATH_VARIABLE: os.pathsep.join(entry for entry in entries if Path(entry).is_absolute())}
