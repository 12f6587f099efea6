"""The folder in which this account keeps what programs write for themselves.

Every command asks for it, so this imports little.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["NoHomeError", "data_folder"]


class NoHomeError(RuntimeError):
    """The account has no home folder."""


def data_folder() -> Path:
    """Ours in it. A relative XDG_DATA_HOME is ignored, as its specification asks: it would lead into the current
    folder. Raises NoHomeError.
    """
    given = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (given if given.is_absolute() else _home() / _data()) / "noetl"


def _home() -> Path:
    try:
        home = Path.home()
    except RuntimeError:
        home = Path()
    if not home.is_absolute():
        raise NoHomeError("this account has no home folder: set XDG_DATA_HOME or NOETL_HOME to a folder you own")
    return home


def _data() -> Path:
    return Path("Library/Application Support" if sys.platform == "darwin" else ".local/share")
