"""Copies the corpus so that it can run here: with our test server, and with the scripts that its playbooks name."""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["copy_corpus"]

UPSTREAM_API = "http://paginated-api.test-server.svc.cluster.local:5555"
SCRIPTS = Path(__file__).parent / "scripts"


def copy_corpus(corpus: Path, folder: Path, api: str) -> None:
    """Copy the playbooks into ``folder``, so that they call the server at ``api``."""
    for file in sorted(corpus.rglob("*.yaml")):
        copy = folder / file.relative_to(corpus)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(file.read_text(encoding="utf-8").replace(UPSTREAM_API, api), encoding="utf-8")
    for examples in folder.rglob("script_execution"):
        shutil.copytree(SCRIPTS, examples / "scripts")
