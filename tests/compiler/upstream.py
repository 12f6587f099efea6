"""The playbooks that upstream wrote, compiled once where they lie: beside this repository."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from noetl_compiler import Result, compile_file

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"


class Upstream(NamedTuple):
    """A playbook as the corpus's manifest has it, and what came of it."""

    path: str
    era: str
    dialect: str
    result: Result


@cache
def upstream() -> tuple[Upstream, ...]:
    """All of them, by path."""
    manifest = json.loads((CORPUS / "manifest.json").read_text(encoding="utf-8"))
    return tuple(
        Upstream(entry["path"], entry["era"], entry["dialect"], compile_file(CORPUS / entry["path"]))
        for entry in sorted(manifest, key=lambda entry: str(entry["path"]))
    )
