"""``noetl schema`` as a person calls it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft7Validator

from noetl_compiler.schema import DIALECTS
from tests.acceptance.site import Site


def test_the_current_dialect_is_printed_unless_another_is_asked_for(bare: Site) -> None:
    done = bare.noetl("schema")
    assert done.returncode == 0
    assert json.loads(done.stdout)["$id"].endswith("playbook-v10.json")


@pytest.mark.parametrize("dialect", [*DIALECTS, "all"])
def test_a_schema_is_written_to_a_file(bare: Site, dialect: str) -> None:
    done = bare.noetl("schema", "--dialect", dialect, "-o", "playbook.schema.json")
    assert (done.returncode, done.stdout) == (0, "")
    schema = json.loads((bare.folder / "playbook.schema.json").read_text())
    validator: Any = Draft7Validator(schema)
    assert not validator.is_valid({"kind": "Playbook"})


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--dialect", "v9"], "'v9' is not one of"),
        (["-o", "/proc/x"], "cannot write /proc/x"),
    ],
)
def test_a_wrong_command_line_is_reported(bare: Site, args: list[str], says: str) -> None:
    done = bare.noetl("schema", *args)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_schema_is_not_written_through_a_link(bare: Site) -> None:
    victim = bare.write("precious", "victim")
    (bare.folder / "project").mkdir()
    (bare.folder / "project/playbook.schema.json").symlink_to(victim)
    done = bare.noetl("schema", "-o", "project/playbook.schema.json")
    assert (done.returncode, victim.read_text()) == (2, "precious")
    assert "it is a link that leads out of project" in done.stderr
