"""Where the libraries beneath log to: their warnings are for an operator, not for someone who runs a playbook."""

from __future__ import annotations

import logging
from pathlib import Path

__all__ = ["log_to_file", "log_to_terminal"]

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def log_to_file(file: Path) -> None:
    """For a command that a person watches: nothing but its own words on the terminal. Nowhere, without a folder."""
    handler = logging.FileHandler(file, delay=True) if file.parent.exists() else logging.NullHandler()
    logging.basicConfig(handlers=[handler], format=FORMAT, level=logging.WARNING)


def log_to_terminal() -> None:
    """For a service: warnings on stderr."""
    logging.basicConfig(format=FORMAT, level=logging.WARNING)
