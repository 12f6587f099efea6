"""Files that somebody else may have put there are refused, and nothing happens to what they lead to."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from noetl_temporal.stack.files import (
    UnsafeFileError,
    check_entries,
    check_folder,
    make_folder,
    open_log,
    read_text,
    replace_user_file,
    write_atomically,
)
from noetl_temporal.stack.process import start

TRAPS: dict[str, Callable[[Path, Path], object]] = {
    "a link": lambda path, victim: path.symlink_to(victim),
    "a hard link": lambda path, victim: path.hardlink_to(victim),
    "a pipe": lambda path, victim: os.mkfifo(path),
    "a folder": lambda path, victim: path.mkdir(),
}


NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


def guess(_bytes: int) -> str:
    return "guessed"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim"
    file.write_text("precious")
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_folder(tmp_path / "home/stack")
    return tmp_path / "home/stack"


@pytest.mark.parametrize("kind", TRAPS)
@pytest.mark.parametrize("use", [read_text, open_log], ids=["read", "written"])
def test_links_and_special_files_are_refused(
    kind: str, use: Callable[[Path], object], folder: Path, victim: Path
) -> None:
    path = folder / "postgres.log"
    TRAPS[kind](path, victim)
    with pytest.raises(UnsafeFileError, match=f"it is {kind}"):
        use(path)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("kind", TRAPS)
def test_a_folder_with_links_or_special_files_is_refused(kind: str, folder: Path, victim: Path) -> None:
    TRAPS[kind](folder / "temporal.db", victim)
    if kind == "a folder":
        check_entries(folder)
        return
    with pytest.raises(UnsafeFileError, match=f"it is {kind}"):
        check_entries(folder)


def test_a_link_that_is_opened_as_any_program_does_leads_to_its_target(folder: Path, victim: Path) -> None:
    """The control: what the guard is for."""
    (folder / "postgres.log").symlink_to(victim)
    (folder / "postgres.log").write_text("overwritten")
    assert victim.read_text() == "overwritten"


@pytest.mark.parametrize("kind", ["a link", "a hard link", "a pipe"])
def test_an_atomic_write_replaces_a_link_or_special_file(kind: str, folder: Path, victim: Path) -> None:
    path = folder / "password.new"
    TRAPS[kind](path, victim)
    write_atomically(path, "secret")
    assert (path.read_text(), path.is_symlink(), path.stat().st_mode & 0o777) == ("secret", False, 0o600)
    assert victim.read_text() == "precious"


def test_the_name_of_a_temporary_file_cannot_be_guessed(
    folder: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is guessed all the same, nothing is written through it."""
    monkeypatch.setattr("secrets.token_hex", guess)
    (folder / ".stack.json.guessed.new").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_atomically(folder / "stack.json", "text")
    assert victim.read_text() == "precious"


def test_a_draft_is_removed_when_it_cannot_take_its_place(folder: Path) -> None:
    (folder / "stack.json").mkdir()
    with pytest.raises(OSError, match=r"[Dd]irectory") as failure:
        write_atomically(folder / "stack.json", "text")
    assert failure.value.filename == str(folder / "stack.json")
    assert [path.name for path in folder.iterdir()] == ["stack.json"]


def test_a_folder_that_is_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    for path in (
        lambda: check_folder(link),
        lambda: read_text(link / "x"),
        lambda: write_atomically(link / "x", ""),
    ):
        with pytest.raises(UnsafeFileError, match="it is a link"):
            path()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_folder_that_others_may_write_is_refused(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    with pytest.raises(UnsafeFileError, match="other users can write to it"):
        read_text(folder / "stack.json")


def test_a_file_that_others_may_write_is_refused(folder: Path) -> None:
    write_atomically(folder / "servers.json", "[]")
    (folder / "servers.json").chmod(0o666)
    with pytest.raises(UnsafeFileError, match="other users can write to it"):
        read_text(folder / "servers.json")


@NEEDS_ROOT
def test_files_of_another_user_are_refused(folder: Path) -> None:
    write_atomically(folder / "servers.json", "[]")
    os.chown(folder / "servers.json", 65534, -1)
    with pytest.raises(UnsafeFileError, match=r"it belongs to another user \(uid 65534\)"):
        read_text(folder / "servers.json")
    os.chown(folder, 65534, -1)
    with pytest.raises(UnsafeFileError, match="belongs to another user"):
        check_folder(folder)


def test_created_files_are_private_to_the_account(tmp_path: Path) -> None:
    make_folder(tmp_path / "a/b")
    write_atomically(tmp_path / "a/b/text", "text")
    open_log(tmp_path / "a/b/log").close()
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "a").rglob("*")}
    assert modes == {"b": 0o700, "text": 0o600, "log": 0o600}
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_a_process_of_the_stack_makes_files_for_its_account_alone(tmp_path: Path) -> None:
    server = start("touch", ["touch", tmp_path / "made"], tmp_path / "log", "touch")
    server.release()
    assert server.process.wait(30) == 0
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o600


def test_a_log_begins_again_or_continues(folder: Path) -> None:
    for text, append in (("one", False), ("two", False), ("three", True)):
        with open_log(folder / "run.log", append=append) as log:
            log.write(text)
    assert read_text(folder / "run.log") == "twothree"


def test_a_reader_sees_the_old_text_or_the_new(folder: Path) -> None:
    texts = {"a" * 10_000, "b" * 10_000}
    write_atomically(folder / "text", min(texts))
    done = threading.Event()

    def write() -> None:
        for _ in range(100):
            for text in texts:
                write_atomically(folder / "text", text)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not done.is_set():
        assert read_text(folder / "text") in texts
    thread.join()


def test_a_persons_file_keeps_its_permissions(tmp_path: Path) -> None:
    file = tmp_path / "playbook.yaml"
    file.write_text("old")
    file.chmod(0o664)
    replace_user_file(file, "new\r\n")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new\r\n", 0o664)


@pytest.mark.parametrize("kind", ["a link", "a hard link", "a pipe", "a folder"])
def test_a_named_file_that_is_not_regular_is_refused(kind: str, tmp_path: Path, victim: Path) -> None:
    TRAPS[kind](tmp_path / "playbook.yaml", victim)
    with pytest.raises(UnsafeFileError, match=f"it is {kind}"):
        replace_user_file(tmp_path / "playbook.yaml", "new")
    assert victim.read_text() == "precious"
