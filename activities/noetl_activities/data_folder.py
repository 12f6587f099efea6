"""The folder for the data of noetl in this account. Every command imports this module, so it imports little."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["NoHomeError", "data_folder"]


class NoHomeError(RuntimeError):
    """The account has no home folder."""


def data_folder() -> Path:
    """Return the folder of noetl below XDG_DATA_HOME, which is ignored if it is relative, as its specification
    requires. Raises NoHomeError.
    """
    folder = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (folder if folder.is_absolute() else _home() / _default_location()) / "noetl"


def _home() -> Path:
    try:
        home = Path.home()
    except RuntimeError:
        home = Path()
    if not home.is_absolute():
        raise NoHomeError("this account has no home folder: set XDG_DATA_HOME or NOETL_HOME to a folder you own")
    return home


def _default_location() -> Path:
    return Path("Library/Application Support" if sys.platform == "darwin" else ".local/share")
