"""``noetl migrate`` as a person calls it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.acceptance.site import ROOT, Site

LEGACY = ROOT / "dev/older_examples/pagination_legacy.yaml"
OLD = LEGACY.read_text(encoding="utf-8")
WRONG = "metadata: {name: x}\nworkflow:\n  - step: start\n    tool: noop\n    next: nowhere\n"


def test_it_prints_rewrites_and_writes_elsewhere(bare: Site) -> None:
    old = bare.folder / "old.yaml"
    old.write_text(OLD)
    print_result = bare.noetl("migrate", "old.yaml")
    assert print_result.returncode == 0
    assert "apiVersion: noetl.io/v2" in print_result.stdout
    comment = '"executor.spec.dialect" keeps the names and defaults of the legacy dialect'
    assert f"old.yaml:2:1: note: {comment}" in print_result.stderr
    assert old.read_text() == OLD
    assert bare.noetl("migrate", "old.yaml", "-o", "new.yaml").stdout == ""
    assert bare.noetl("migrate", "old.yaml", "--write").returncode == 0
    assert (bare.folder / "new.yaml").read_text() == old.read_text() == print_result.stdout
    second_result = bare.noetl("migrate", "old.yaml")
    assert (second_result.stdout, second_result.stderr) == (print_result.stdout, "")


def test_stdin_is_a_playbook_too(bare: Site) -> None:
    command = [sys.executable, "-m", "noetl_temporal.cli", "migrate", "-"]
    done = subprocess.run(command, input=OLD, capture_output=True, text=True, cwd=bare.folder, check=True)
    assert done.stdout == bare.noetl("migrate", str(LEGACY)).stdout


def test_folders_are_checked_compared_and_rewritten(bare: Site) -> None:
    books = bare.folder / "books"
    (books / "deep").mkdir(parents=True)
    for name in ("one.yaml", "deep/two.yaml"):
        (books / name).write_text(OLD)
    check_result = bare.noetl("migrate", "books", "--check")
    assert check_result.returncode == 1
    assert check_result.stdout == "books/deep/two.yaml: would be rewritten\nbooks/one.yaml: would be rewritten\n"
    diff_result = bare.noetl("migrate", "books", "--diff")
    assert diff_result.returncode == 0
    assert "--- books/one.yaml\n+++ books/one.yaml\n@@ " in diff_result.stdout
    assert bare.noetl("migrate", "books", "-o", "new").returncode == 0
    assert (books / "one.yaml").read_text() == OLD
    assert bare.noetl("migrate", "books", "--write").returncode == 0
    assert (bare.folder / "new/books/deep/two.yaml").read_text() == (books / "deep/two.yaml").read_text() != OLD
    assert bare.noetl("migrate", "books", "--check").returncode == 0


def test_a_file_keeps_its_line_ends_its_link_and_its_permissions(bare: Site) -> None:
    real, link = bare.folder / "real.yaml", bare.folder / "link.yaml"
    real.write_bytes(OLD.replace("\n", "\r\n").encode())
    real.chmod(0o640)
    link.symlink_to(real)
    assert bare.noetl("migrate", "link.yaml", "--write").returncode == 0
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    lines = real.read_bytes().splitlines(keepends=True)
    assert {line[-2:] for line in lines} == {b"\r\n"}
    assert bare.noetl("migrate", "real.yaml", "--check").returncode == 0


def test_a_link_under_the_name_of_the_draft_is_not_written_through(bare: Site) -> None:
    """The draft was called ``.old.yaml.new``: whoever made the folder chose what was overwritten."""
    (bare.folder / "books").mkdir()
    victim = bare.write("precious", "victim")
    bare.write(OLD, "books/old.yaml")
    for name in (".old.yaml.new", "old.yaml.new"):
        (bare.folder / "books" / name).symlink_to(victim)
    assert bare.noetl("migrate", "books", "--write").returncode == 0
    assert victim.read_text() == "precious"
    assert "apiVersion" in (bare.folder / "books/old.yaml").read_text()


@pytest.mark.parametrize("path", ["books", "books/old.yaml", "books/deep/old.yaml"])
def test_a_link_that_leads_out_of_the_folder_is_refused(bare: Site, path: str) -> None:
    (bare.folder / "books/deep").mkdir(parents=True)
    victim = bare.write(OLD, "victim.yaml")
    for name in ("books/old.yaml", "books/deep/old.yaml"):
        (bare.folder / name).symlink_to(victim)
    done = bare.noetl("migrate", path, "--write")
    assert (done.returncode, victim.read_text()) == (1, OLD)
    assert "it is a link that leads out of books" in done.stderr
    assert f"to {victim.resolve()}; to write that file, name it directly" in done.stderr


def test_a_link_that_stays_in_the_folder_that_was_named_is_followed(bare: Site) -> None:
    (bare.folder / "books/deep").mkdir(parents=True)
    real = bare.write(OLD, "books/real.yaml")
    (bare.folder / "books/deep/link.yaml").symlink_to(real)
    assert bare.noetl("migrate", "books/deep/link.yaml", "--write").returncode == 1
    assert bare.noetl("migrate", "books", "--write").returncode == 0
    assert (bare.folder / "books/deep/link.yaml").is_symlink()
    assert real.read_text() != OLD


def test_output_is_not_written_through_links_out_of_the_folder(bare: Site) -> None:
    for folder in ("books", "new", "elsewhere"):
        (bare.folder / folder).mkdir()
    bare.write(OLD, "books/old.yaml")
    bare.write(OLD, "books/other.yaml")
    (bare.folder / "new/books").symlink_to(bare.folder / "elsewhere")
    done = bare.noetl("migrate", "books", "-o", "new")
    assert (done.returncode, list((bare.folder / "elsewhere").iterdir())) == (1, [])
    assert "it is a link that leads out of new" in done.stderr


def test_a_hard_link_is_not_replaced(bare: Site) -> None:
    bare.write(OLD, "old.yaml")
    (bare.folder / "other.yaml").hardlink_to(bare.folder / "old.yaml")
    done = bare.noetl("migrate", "old.yaml", "--write")
    assert done.returncode == 1
    assert "cannot write old.yaml: it is a hard link: the file has 2 names" in done.stderr
    assert (bare.folder / "old.yaml").read_text() == OLD


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every file")
def test_a_file_that_may_only_be_read_is_not_replaced(bare: Site) -> None:
    old = bare.folder / "old.yaml"
    old.write_text(OLD)
    old.chmod(0o440)
    done = bare.noetl("migrate", "old.yaml", "--write")
    assert (done.returncode, old.read_text()) == (1, OLD)
    assert "it is read-only" in done.stderr


def test_a_canonical_file_with_a_byte_order_mark_is_not_touched(bare: Site) -> None:
    marked_file = bare.folder / "marked.yaml"
    marked_file.write_bytes(b"\xef\xbb\xbf" + bare.noetl("migrate", str(LEGACY)).stdout.encode())
    before = marked_file.read_bytes()
    assert bare.noetl("migrate", "marked.yaml", "--write").returncode == 0
    assert marked_file.read_bytes() == before


def test_a_playbook_with_errors_stays_as_it_is(bare: Site) -> None:
    wrong = bare.folder / "wrong.yaml"
    wrong.write_text(WRONG)
    done = bare.noetl("migrate", "wrong.yaml", "--write")
    assert done.returncode == 1
    assert "wrong.yaml:5:11: error[NT203]" in done.stderr
    assert "nothing was written" in done.stderr
    assert wrong.read_text() == WRONG


def test_a_wrong_command_line_is_reported(bare: Site) -> None:
    (bare.folder / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    assert "error[NT001]" in bare.noetl("migrate", "latin.yaml").stderr
    assert bare.noetl("migrate", "nowhere.yaml").returncode == 2
    (bare.folder / "other.yaml").write_text(OLD)
    for wrong in (["--write", "-o", "new.yaml"], ["--write", "--check"], ["other.yaml"]):
        assert bare.noetl("migrate", "latin.yaml", *wrong).returncode == 2
