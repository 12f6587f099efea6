"""What ``noetl prune`` says. What it removes is in test_expired.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from noetl_temporal.cli.prune import summary
from noetl_temporal.mirror.prune import PruneResult
from noetl_temporal.mirror.server_needs import BlockingRun
from tests.acceptance.site import Site


def test_the_summary_lists_what_is_skipped_and_why() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    result = PruneResult(now, 1, 2, 1_234_567, 3, BlockingRun(now - timedelta(days=9), "tests/large/1", "r1"), 7)
    removed_line, logs_line, retained_line, blocked_line = summary(result, dry_run=True).splitlines()
    assert (
        removed_line == "would remove 2 payloads, 1.23 MB; would prune 1 run that ended before 2026-03-01 00:00:00 UTC"
    )
    assert logs_line == "would remove 7 rows of noetl.log"
    assert retained_line == "skipped, still in Temporal: 3 runs"
    assert blocked_line == (
        "skipped all payloads stored since 2026-02-20 00:00:00 UTC: tests/large/1 run r1 has calls in progress, or the "
        "mirror has not read all of its history (see `noetl mirror problems`)"
    )


@pytest.mark.stack
@pytest.mark.parametrize("age", ["30", "2.5", "soon", "1e9999d", "9999999999999d"])
def test_an_invalid_age_is_refused(site: Site, age: str) -> None:
    done = site.noetl("prune", "--older-than", age)
    assert done.returncode == 2
    assert "is not a duration with a unit, such as 30d or 36h" in done.stderr
