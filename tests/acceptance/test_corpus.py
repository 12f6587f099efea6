"""Upstream's own pagination playbooks, unchanged, against our API. Skipped where the corpus is not at hand."""

from __future__ import annotations

import asyncpg
import pytest

from tests.acceptance.site import ROOT, Api, Site

CORPUS = ROOT.parent / "shared/corpus"
DECEMBER = "noetl@2025-12-10/tests/fixtures/playbooks/pagination"
FEBRUARY = "noetl@2026-02-28/tests/fixtures/playbooks/pagination"
HEAD = "e2e@HEAD/fixtures/playbooks/pagination"
KINDS = ("offset", "retry", "max_iterations", "loop_with_pagination")
FILES = [f"{era}/{kind}/test_pagination_{kind}.yaml" for era in (DECEMBER, FEBRUARY, HEAD) for kind in KINDS]

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here"),
]


@pytest.fixture
async def fresh(playbooks: asyncpg.Connection) -> None:
    """The eras' playbooks use one table's name for tables of different shapes."""
    await playbooks.execute("DROP TABLE IF EXISTS pagination_test_results")


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("file", [file.replace("test_pagination_loop", "test_loop") for file in FILES])
def test_the_playbook_completes(site: Site, api: Api, file: str) -> None:
    report = site.run(CORPUS / file, "--set", f"api_url={api.url}")
    assert report["status"] == "completed", report["failures"]


def test_the_seed_of_this_project(site: Site, api: Api) -> None:
    """Three endpoints of 35 items, in pages of 10, 15 and 20: 4 + 3 + 2 calls."""
    file = CORPUS / DECEMBER / "loop_with_pagination/test_loop_with_pagination.yaml"
    report = site.run(file, "--set", f"api_url={api.url}")
    assert report["status"] == "completed", report["failures"]
    assert api.calls("/api/v1/assessments") == 9
    assert report["steps"]["fetch_all_endpoints"]["attempts"] == 9
