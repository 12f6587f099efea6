"""Files that somebody names are read without waiting and without end."""

from __future__ import annotations

import os
import socket
from functools import partial
from pathlib import Path

import pytest

from noetl_compiler.regular_file import read_regular


def test_a_file_is_read_as_far_as_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 3_000_000)
    assert read_regular(file, 4_000_000) == b"x" * 3_000_000
    assert len(read_regular(file, 2_500_000)) == 2_500_000
    link = tmp_path / "link"
    link.symlink_to(file)
    assert read_regular(link, 3) == b"xxx"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="it is a pipe, not a file"):
        read_regular(pipe, 10)


def test_a_pipe_that_takes_a_files_place_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at its kind and the moment it is opened."""
    file, pipe = tmp_path / "file", tmp_path / "pipe"
    file.write_bytes(b"x")
    os.mkfifo(pipe)
    monkeypatch.setattr(Path, "stat", partial(Path.stat, file))
    with pytest.raises(OSError, match="it is a pipe, not a file"):
        read_regular(pipe, 10)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_a_device_is_not_opened(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", partial(pytest.fail, "it was opened"))
    with pytest.raises(OSError, match="it is a device, not a file"):
        read_regular(Path(device), 10)


def test_a_folder_and_a_socket_are_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path, 10)
    monkeypatch.chdir(tmp_path)  # the path of a socket may not be long
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(OSError, match="it is a socket, not a file"):
            read_regular(Path("socket"), 10)
