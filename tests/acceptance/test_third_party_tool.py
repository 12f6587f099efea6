"""A tool of another package, built and installed: its calls are checked, completed, explained and run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from tests.acceptance.site import ROOT, Site

PACKAGE = ROOT / "tests/third_party_tool"
PLAYBOOK = PACKAGE / "playbook.yaml"
PAGE = (ROOT / "dev/reference/own-tools.md").read_text()


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which its wheel is installed: of pure Python, so that is to unpack it."""
    place = tmp_path_factory.mktemp("third_party")
    shutil.copytree(PACKAGE, place / "source", ignore=shutil.ignore_patterns("__pycache__"))
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(place),
        str(place / "source"),
    ]
    build_result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert build_result.returncode == 0, build_result.stdout + build_result.stderr
    [wheel] = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place / "installed")
    return place / "installed"


@pytest.fixture
def site(bare: Site, installation: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return a folder in which commands find the tool."""
    path = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (path, str(installation)))))
    return bare


def block(language: str, beginning: str = "") -> str:
    """The first block of the page in that language that begins so, without its beginning."""
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if block.startswith(beginning)).removeprefix(beginning)


@pytest.mark.parametrize(
    ("language", "file"), [("toml", "pyproject.toml"), ("python", "noetl_jsonl.py"), ("yaml", "playbook.yaml")]
)
def test_the_page_shows_this_package(language: str, file: str) -> None:
    assert block(language) == (PACKAGE / file).read_text()


def test_the_compiler_does_not_know_it_where_it_is_not_installed(bare: Site) -> None:
    done = bare.noetl("compile", str(PLAYBOOK))
    assert done.returncode == 1
    assert 'playbook.yaml:8:13: error[NT501]: unknown tool kind "jsonl"' in done.stderr
    assert "install the package that provides it" in done.stderr


def test_a_right_call_compiles_with_its_guarantee(site: Site) -> None:
    done = site.noetl("compile", str(PLAYBOOK))
    assert (done.returncode, done.stderr) == (0, "")
    assert "start_task [jsonl, exactly once]" in done.stdout
    assert (
        "exactly once: a record has the key of its call" in site.noetl("compile", str(PLAYBOOK), "--guarantees").stdout
    )


def test_a_misspelt_field_is_reported_at_its_place(site: Site) -> None:
    text = PLAYBOOK.read_text().replace("record:", "recrod:").replace("kind: jsonl", "kind: jsonl\n      mode: apend")
    site.write(text, "wrong.yaml")
    done = site.noetl("compile", "wrong.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == block("console", "$ noetl compile wrong.yaml\n")
    assert "wrong.yaml:11:7: error[NT102]" in done.stderr


def test_the_schema_has_its_fields(site: Site) -> None:
    schema: dict[str, Any] = json.loads(site.noetl("schema").stdout)
    mode = schema["definitions"]["jsonl_fields"]["properties"]["mode"]
    assert mode["description"] == "What happens to the records that are there."
    assert mode["anyOf"][0]["default"] == "append"
    validator: Any = Draft7Validator(schema)
    tool: dict[str, Any] = {"kind": "jsonl", "file": "f", "record": {}}
    for field, valid in (
        ({}, True),
        ({"mode": "replace"}, True),
        ({"mode": "other"}, False),
        ({"mod": "replace"}, False),
    ):
        playbook = {"apiVersion": "noetl.io/v10", "kind": "Playbook", "metadata": {"name": "x"}}
        assert validator.is_valid({**playbook, "workflow": [{"step": "start", "tool": {**tool, **field}}]}) is valid


def test_it_is_explained(site: Site) -> None:
    done = site.noetl("explain", "jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    example = block("console", "$ noetl explain jsonl\n")
    head, _, tail = example.partition("...\n")
    assert done.stdout.startswith(head)
    assert done.stdout.endswith(tail)
    assert "Default: append" in site.noetl("explain", "jsonl.mode").stdout
    assert re.search(r"^  jsonl +Adds a record", site.noetl("explain").stdout, re.MULTILINE)


@pytest.mark.stack
def test_a_playbook_with_the_tool_runs(site: Site) -> None:
    file = site.folder / "orders.jsonl"
    report = site.run(PLAYBOOK, "--set", f"file={file}")
    assert (report["status"], report["result"]) == ("completed", {"lines": 1})
    [record] = map(json.loads, file.read_text().splitlines())
    assert record == {"key": record["key"], "id": 7, "city": "Oslo"}


@pytest.mark.stack
def test_values_of_templates_are_checked_at_run_time(site: Site) -> None:
    text = PLAYBOOK.read_text().replace("record: {id: 7, city: Oslo}", 'record: "{{ workload.file }}"')
    report = site.run(site.write(text), "--set", f"file={site.folder / 'orders.jsonl'}")
    assert report["status"] == "failed"
    assert '"record": Input should be a valid dictionary' in report["failures"][0]["message"]
