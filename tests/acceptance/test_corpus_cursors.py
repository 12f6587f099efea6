"""Upstream's own cursor loop, unchanged, against our API. Skipped where the corpus is not at hand."""

from __future__ import annotations

import asyncpg
import pytest

from tests.acceptance.site import Api, Site
from tests.acceptance.test_corpus import CORPUS

FILE = CORPUS / "e2e@HEAD/fixtures/playbooks/pft_flow_test/test_pft_page_continuation.yaml"

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here"),
]


async def test_pages_make_more_rows_to_claim(site: Site, api: Api, playbooks: asyncpg.Connection) -> None:
    """Each row is a page; a page that has a next one adds a row for it. The playbook itself checks what came of all."""
    report = site.run(FILE, "--set", f"api_url={api.url}", "--set", "patient_count=2")
    assert report["status"] == "completed", report["failures"]
    works = await playbooks.fetch("SELECT status, attempt_count FROM public.pft_page_continuation_work")
    assert {tuple(row) for row in works} == {("done", 1)}
    assert report["result"] is not None
    calls = sum(api.calls(f"/api/v1/patient/{kind}") for kind in ("assessments", "conditions", "medications"))
    assert calls >= 6
