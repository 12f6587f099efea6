"""The folder for application data of this account (XDG_DATA_HOME). Every command uses it, so it imports little."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["NoHomeError", "data_folder"]


class NoHomeError(RuntimeError):
    """The account has no home folder."""


def data_folder() -> Path:
    """Return the folder of noetl there. A relative XDG_DATA_HOME is ignored, as its specification requires: it would
    depend on the current folder. Raises NoHomeError.
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
