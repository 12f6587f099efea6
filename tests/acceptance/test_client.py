"""The Python client, as the README shows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.acceptance.site import ROOT, Site


def test_the_python_example_of_the_readme_runs(site: Site) -> None:
    programs = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (program,) = [candidate for candidate in programs if "NoetlClient" in candidate]
    environment = {**os.environ, **site.addresses().environment()}
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0] == "completed {'said': 'Hello, Ada!'}"
    assert lines[1].startswith("playbook.execution.requested")
    assert lines[-1].startswith("playbook.completed")
