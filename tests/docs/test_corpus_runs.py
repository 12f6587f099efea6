"""The table of corpus runs has every playbook that needs no cloud, and says why one does not complete."""

from __future__ import annotations

import json

import pytest

from dev.corpus_runs.table import NOT_RUN, expected_runs
from tests.compiler.upstream import CORPUS

STATUSES = {"completed", "failed", "refused", NOT_RUN}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is not here")
def test_it_has_every_playbook_that_needs_no_cloud() -> None:
    manifest = json.loads((CORPUS / "manifest.json").read_text(encoding="utf-8"))
    assert list(expected_runs()) == sorted(entry["path"] for entry in manifest if entry["no_cloud"])


def test_each_that_does_not_complete_has_a_reason() -> None:
    table = expected_runs()
    assert {statement.status for statement in table.values()} == STATUSES
    assert {
        statement.file for statement in table.values() if bool(statement.reason) is (statement.status == "completed")
    } == set()
    assert {statement.after for statement in table.values() if statement.after} <= table.keys()
