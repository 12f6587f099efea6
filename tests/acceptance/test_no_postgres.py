"""A command that knows the cluster's Temporal, but not the Postgres its workers use."""

from __future__ import annotations

import pytest

from tests.acceptance.site import Site

LARGE = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: large, path: tests/large}
workflow:
  - step: start
    tool: {kind: python, code: "result = 'x' * 200_000"}
"""
FRAMED_LOOP = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: framed, path: tests/framed}
workflow:
  - step: start
    loop: {in: [1, 2], iterator: item, spec: {frame: {max_rows: 2}}}
    tool: {kind: noop}
"""


@pytest.fixture(autouse=True)
def without_postgres(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in site.addresses().environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NOETL_POSTGRES")


def test_a_report_stored_in_postgres_needs_the_dsn(site: Site, bare: Site) -> None:
    done = bare.noetl("run", str(bare.write(LARGE)))
    assert (done.returncode, done.stdout) == (3, "")
    assert "has ended, but its report is large and was stored in Postgres: set NOETL_POSTGRES" in done.stderr
    assert "bug" not in done.stderr


def test_a_framed_loop_runs_without_frames(bare: Site) -> None:
    file = bare.write(FRAMED_LOOP)
    done = bare.noetl("run", str(file))
    assert done.returncode == 0, done.stderr
    assert f"{file}:6:" in done.stderr
    assert 'warning: "frame" has no effect' in done.stderr
