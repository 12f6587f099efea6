"""The stack of a folder runs only what is signed with its key."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from noetl_temporal.environment import SIGNING_KEY_VARIABLE
from tests.acceptance.site import ROOT, Site

HELLO = ROOT / "dev/examples/hello.yaml"


def test_a_submission_without_the_key_of_the_stack_reports_it(
    site: Site, bare: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Path(site.addresses().signing_key_file)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    for name, value in site.addresses().environment().items():
        monkeypatch.setenv(name, value)
    assert bare.noetl("run", str(HELLO)).returncode == 0
    monkeypatch.delenv(SIGNING_KEY_VARIABLE)
    refusal = bare.noetl("run", str(HELLO))
    assert refusal.returncode == 1
    assert "refused: this run is not signed. Set NOETL_SIGNING_KEY_FILE where you submit it" in refusal.stdout
    assert SIGNING_KEY_VARIABLE in refusal.stdout
