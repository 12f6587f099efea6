"""Starts ``noetl`` itself without the current folder on its import path, because that may be a project from others.

``python -m`` puts the current folder first on the import path, so a ``json.py`` in it would replace Python's own;
``-P`` does not. An empty or relative entry of PYTHONPATH also means the current folder, or one below it. It is rarely
intended (a trailing colon), so such entries are removed.
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
    """PYTHONPATH for it: the absolute entries."""
    entries = os.environ.get(PATH_VARIABLE, "").split(os.pathsep)
    return {PATH_VARIABLE: os.pathsep.join(entry for entry in entries if Path(entry).is_absolute())}
