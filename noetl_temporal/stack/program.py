"""How the stack starts ``noetl`` itself: with no module of the folder in which a playbook lies on its import path.

``python -m`` puts the current folder first on the import path, where a ``json.py`` of somebody else would be imported
for Python's own; ``-P`` does not. An empty or relative entry of PYTHONPATH means a folder below the current one too.
Who ends PYTHONPATH in a colon hardly means that, so such entries are left out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["import_path", "program"]

PATH_VARIABLE = "PYTHONPATH"


def program(*arguments: str) -> list[str]:
    """The command line of ``noetl`` with these arguments."""
    return [sys.executable, "-P", "-m", "noetl_temporal.cli", *arguments]


def import_path() -> dict[str, str]:
    """PYTHONPATH for it: the absolute entries."""
    entries = os.environ.get(PATH_VARIABLE, "").split(os.pathsep)
    return {PATH_VARIABLE: os.pathsep.join(entry for entry in entries if Path(entry).is_absolute())}
