"""The table dev/corpus_runs.tsv: how each playbook of the corpus that needs no cloud should end here."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["NOT_RUN", "TABLE", "Expected", "expected_runs"]

TABLE = Path(__file__).parents[1] / "corpus_runs.tsv"

NOT_RUN = "not run"
"""The status of a playbook that would change the machine that it runs on."""


class Expected(NamedTuple):
    """How ``file`` should end: ``status`` is that of its run, or refused where none starts, or NOT_RUN.

    ``rows`` has the number of rows of each table afterwards, in a database that was empty before. ``settings`` is the
    request, which makes long waits and large loops small. ``after`` is the file that runs before it and leaves
    its tables. ``reason`` says why one does not complete.
    """

    file: str
    status: str
    rows: Mapping[str, int]
    settings: Mapping[str, Any]
    after: str
    reason: str


def expected_runs() -> dict[str, Expected]:
    """Return the expected runs by file, in the order of the table."""
    with TABLE.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["file"]: _expected_run(row) for row in rows}


def _expected_run(row: Mapping[str, str]) -> Expected:
    counts = dict(pair.split("=") for pair in row["rows"].split())
    settings = json.loads(row["settings"] or "{}")
    rows = {table: int(count) for table, count in counts.items()}
    return Expected(row["file"], row["status"], rows, settings, row["after"], row["reason"])
