"""A folder in which the command is called, and the web API it works on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.stack_folders import stack_folder

ROOT = Path(__file__).parent.parent.parent
NOETL = [sys.executable, "-m", "noetl_temporal.cli"]


class Site(NamedTuple):
    """A folder in which commands run."""

    folder: Path

    @property
    def home(self) -> Home:
        """Where this folder's stack keeps its data."""
        configured_home = os.environ.get("NOETL_HOME")
        return Home(Path(configured_home) if configured_home else stack_folder(self.folder))

    def noetl(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end. Whatever it was given, it shows no traceback."""
        done = subprocess.run([*NOETL, *args], cwd=self.folder, capture_output=True, text=True, timeout=120)
        assert "Traceback" not in done.stderr + done.stdout
        return done

    def run(self, playbook: Path, *args: str) -> dict[str, Any]:
        """``noetl run --json``: the object it prints."""
        done = self.noetl("run", str(playbook), "--json", *args)
        assert done.returncode in (0, 1), done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == (0 if report["status"] in ("completed", "partial") else 1)
        return report

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start a command and let it run."""
        pipe = subprocess.PIPE
        return subprocess.Popen([*NOETL, *args], cwd=self.folder, stdout=pipe, stderr=pipe, text=True)

    def write(self, text: str, name: str = "playbook.yaml") -> Path:
        """A playbook of that text."""
        file = self.folder / name
        file.write_text(text)
        return file

    def addresses(self) -> Addresses:
        """Where this folder's stack is."""
        addresses = Addresses.read(self.home.addresses_file)
        assert addresses is not None
        return addresses


class Api(NamedTuple):
    """The web API of the examples."""

    url: str

    def calls(self, path: str) -> int:
        """How often ``path`` was called since the test began."""
        return int(httpx.get(f"{self.url}/__calls").json()["calls"].get(path, {}).get("total", 0))
