"""``noetl dev list`` and ``noetl dev rm``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from noetl_temporal.stack.files import make_folder, write_atomically
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.stack_folders import stack_folder
from tests.acceptance.site import Site


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stacks of no other test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


def project(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A project with a stack that is not running."""
    (folder / name).mkdir()
    monkeypatch.chdir(folder / name)
    home = Home()
    with home.owner_lock("run"):
        pass
    write_atomically(home.temporal_database, "x" * 2_000_000)
    return home


def test_stacks_are_listed_and_removed(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bare.noetl("dev", "list").stdout.startswith("there is no stack in ")
    one, two = (project(bare.folder, name, monkeypatch) for name in ("one", "two"))
    listed_stacks = json.loads(bare.noetl("dev", "list", "--json").stdout)
    assert [(entry["project"], entry["folder"], entry["state"]) for entry in listed_stacks] == [
        (str(bare.folder.resolve() / name), str(home.root), "not running")
        for name, home in (("one", one), ("two", two))
    ]
    assert all(entry["bytes"] > 2_000_000 for entry in listed_stacks)
    output = bare.noetl("dev", "list").stdout
    assert f"not running       2 MB  {bare.folder.resolve() / 'one'}\n" in output
    assert str(two.root) in output
    rm_result = bare.noetl("dev", "rm", "one")
    assert rm_result.stdout == f"removed {one.root} of {bare.folder.resolve() / 'one'}\n"
    assert (one.root.exists(), two.root.exists()) == (False, True)
    (bare.folder / "two").rmdir()
    assert bare.noetl("dev", "rm", "two").returncode == 0
    assert not two.root.exists()


def test_without_a_project_the_current_folder_is_meant(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    home = project(bare.folder, "one", monkeypatch)
    assert Site(bare.folder / "one").noetl("dev", "rm").returncode == 0
    assert not home.root.exists()
    second_result = Site(bare.folder / "one").noetl("dev", "rm")
    assert (second_result.returncode, second_result.stderr) == (
        1,
        f"Error: there is no stack of {(bare.folder / 'one').resolve()}\n",
    )


def test_a_stack_that_is_owned_is_kept(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    up, other = (project(bare.folder, name, monkeypatch) for name in ("up", "other"))
    with up.owner_lock("dev"):
        states = {
            report["folder"]: report["state"] for report in json.loads(bare.noetl("dev", "list", "--json").stdout)
        }
        assert states == {str(up.root): "up (dev)", str(other.root): "not running"}
        done = bare.noetl("dev", "rm", "--all")
    assert done.returncode == 1
    assert f"not removed: process {os.getpid()} (`noetl dev up`) owns the stack in {up.root}" in done.stderr
    assert (up.temporal_database.exists(), other.root.exists()) == (True, False)


def test_links_are_not_followed_out_of_a_stack(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    home = project(bare.folder, "one", monkeypatch)
    precious = bare.folder / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    (home.postgres_folder / "data").mkdir(parents=True)
    (home.postgres_folder / "data/pg_wal").symlink_to(precious)
    assert bare.noetl("dev", "rm", "one").returncode == 0
    assert (precious / "file").read_text() == "kept"


def test_a_folder_that_is_a_link_is_neither_read_nor_removed(
    bare: Site, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = bare.folder / "theirs"
    make_folder(theirs)
    write_atomically(theirs / "project.json", json.dumps("/projects/theirs"))
    make_folder(stack_folder(Path("/projects/theirs")).parent)
    stack_folder(Path("/projects/theirs")).symlink_to(theirs)
    (listed_stacks,) = json.loads(bare.noetl("dev", "list", "--json").stdout)
    assert (listed_stacks["project"], listed_stacks["state"]) == (None, "refused: it is a link")
    done = bare.noetl("dev", "rm", "/projects/theirs")
    assert done.returncode == 1
    assert "it is a link" in done.stderr
    assert (theirs / "project.json").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_stack_of_another_user_is_neither_read_nor_removed(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    home = project(bare.folder, "one", monkeypatch)
    os.chown(home.root, 65534, -1)
    (listed_stacks,) = json.loads(bare.noetl("dev", "list", "--json").stdout)
    assert listed_stacks["state"] == "refused: it belongs to another user (uid 65534)"
    done = bare.noetl("dev", "rm", "--all")
    assert done.returncode == 1
    assert "it belongs to another user" in done.stderr
    assert home.temporal_database.exists()


def test_a_folder_that_noetl_home_names_is_not_removed(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a home folder."""
    monkeypatch.setenv("NOETL_HOME", str(bare.folder))
    done = bare.noetl("dev", "rm")
    assert done.returncode == 2
    assert f"NOETL_HOME names {bare.folder}: remove that folder yourself" in done.stderr
    assert bare.folder.exists()


def test_a_stack_in_noetl_home_is_listed_too(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    project(bare.folder, "one", monkeypatch)
    monkeypatch.setenv("NOETL_HOME", str(bare.folder))
    listed_stacks = json.loads(bare.noetl("dev", "list", "--json").stdout)
    assert [stack["folder"] for stack in listed_stacks[1:]] == [str(bare.folder)]


def test_a_name_with_escapes_is_not_printed_raw(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    project(bare.folder, "\x1b[31mred", monkeypatch)
    assert "\x1b" not in bare.noetl("dev", "list").stdout
    assert "\x1b" not in bare.noetl("dev", "rm", "\x1b[31mred").stdout


def test_a_wrong_command_line_is_reported(bare: Site) -> None:
    assert bare.noetl("dev", "rm", "one", "--all").returncode == 2
    assert bare.noetl("dev", "rm", "nowhere").returncode == 1
