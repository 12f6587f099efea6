"""Opens files of the stack, but only regular files of this account.

A path may be a trap: a link that redirects a write, a hard link to another file, a FIFO that blocks forever, or a file
whose owner changes it later. So a folder is opened first, and its files are opened relative to that descriptor. Links
are never followed (O_NOFOLLOW), opening a FIFO does not block (O_NONBLOCK), and an opened file is checked before it is
read, written or truncated. New content is written to a file with a random name that must not exist (O_EXCL), which then
replaces the old file, so a reader sees either the old or the new content.

All functions raise UnsafeFileError, an OSError whose ``strerror`` describes the problem with ``filename``.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TextIO

from noetl_compiler.regular_file import file_type

__all__ = [
    "DRAFT_SUFFIX",
    "FOLDER_FLAGS",
    "OTHERS_MAY_WRITE",
    "UnsafeFileError",
    "check_entries",
    "check_folder",
    "check_plain_file",
    "make_folder",
    "open_file",
    "open_log",
    "read_text",
    "replace_file",
    "replace_user_file",
    "write_atomically",
]

DRAFT_SUFFIX = ".new"
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeFileError(OSError):
    """The path is not a regular file or folder, or others can change it."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(errno.EPERM, problem, str(path))


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, which only this account can access."""
    if not folder.parent.exists():
        make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)


def check_folder(folder: Path) -> None:
    """Raise UnsafeFileError unless ``folder`` belongs to this account, and no other account can write to it."""
    with _open_folder(folder):
        pass


def check_entries(folder: Path) -> None:
    """Raise UnsafeFileError for an entry of ``folder`` that is neither a folder nor a regular file of this account."""
    with _open_folder(folder) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # the owner of the stack may be replacing the file
                status = entry.stat(follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    _check_own_file(folder / entry.name, status)


def open_file(path: Path, flags: int) -> int:
    """Open a regular file of this account in a folder of this account. ``flags`` are those of os.open."""
    with _open_folder(path.parent) as folder:
        # Checked before opening too: opening a special file may have effects, or fail with a less clear message.
        with suppress(FileNotFoundError):
            _check_own_file(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False))
        with _full_path_in_errors(path):
            descriptor = os.open(path.name, flags | FILE_FLAGS, 0o600, dir_fd=folder)
        try:
            _check_own_file(path, os.fstat(descriptor))
        except UnsafeFileError:
            os.close(descriptor)
            raise
        return descriptor


def read_text(path: Path) -> str:
    """Return the content of a file of this account. Raises FileNotFoundError too."""
    with os.fdopen(open_file(path, os.O_RDONLY), encoding="utf-8", errors="replace") as file:
        return file.read()


def open_log(path: Path, *, append: bool = False) -> TextIO:
    """Open a log file for writing; truncate it unless ``append``."""
    descriptor = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    if not append:
        os.ftruncate(descriptor, 0)
    return os.fdopen(descriptor, "a", encoding="utf-8")


def write_atomically(path: Path, text: str) -> None:
    """Replace a file of this account atomically; only its owner can read it."""
    with _open_folder(path.parent) as folder:
        _replace(folder, path, text, 0o600)


def replace_user_file(path: Path, text: str) -> None:
    """Replace a file outside of the stack atomically; its permissions and the line ends of ``text`` are kept.

    The folder may be shared. Raises UnsafeFileError if the file is not regular or has hard links.
    """
    folder = os.open(path.parent, FOLDER_FLAGS)
    try:
        keep_permissions: Callable[[int], None] | None = None
        with suppress(FileNotFoundError):
            status = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
            check_plain_file(path, status)
            keep_permissions = partial(os.fchmod, mode=stat.S_IMODE(status.st_mode))
        _replace(folder, path, text, 0o666, keep_permissions)
    finally:
        os.close(folder)


def replace_file(path: Path, text: str, prepare: Callable[[int], None]) -> None:
    """Replace a file atomically, in a folder that the caller has checked; only its owner can read it.

    ``prepare`` is called with the descriptor of the new file, before it replaces the old one.
    """
    folder = os.open(path.parent, FOLDER_FLAGS)
    try:
        _replace(folder, path, text, 0o600, prepare)
    finally:
        os.close(folder)


def _replace(folder: int, path: Path, text: str, mode: int, prepare: Callable[[int], None] | None = None) -> None:
    """Write a draft and rename it to ``path``. ``mode``: its permissions, which the umask reduces."""
    draft = f".{path.name}.{secrets.token_hex(8)}{DRAFT_SUFFIX}"
    with _full_path_in_errors(path):
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE_FLAGS, mode, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                if prepare is not None:
                    prepare(descriptor)
            os.replace(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(draft, dir_fd=folder)
            raise


@contextmanager
def _open_folder(folder: Path) -> Generator[int]:
    _check_no_link(folder)
    with _full_path_in_errors(folder):
        descriptor = os.open(folder, FOLDER_FLAGS)
    try:
        status = os.fstat(descriptor)
        _check_owner(folder, status)
        yield descriptor
    finally:
        os.close(descriptor)


def _check_no_link(folder: Path) -> None:
    if folder.is_symlink():
        raise UnsafeFileError(folder, "it is a link")


def _check_own_file(path: Path, status: os.stat_result) -> None:
    check_plain_file(path, status)
    _check_owner(path, status)


def check_plain_file(path: Path, status: os.stat_result) -> None:
    """Raise UnsafeFileError unless ``status`` is that of a regular file without other hard links."""
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeFileError(path, f"it is {file_type(status)}")
    if status.st_nlink > 1:
        raise UnsafeFileError(path, f"it is a hard link: the file has {status.st_nlink} names")


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise UnsafeFileError(path, f"it belongs to another user (uid {status.st_uid})")
    if status.st_mode & OTHERS_MAY_WRITE:
        raise UnsafeFileError(path, "other users can write to it (run chmod go-w)")


@contextmanager
def _full_path_in_errors(path: Path) -> Generator[None]:
    """Put the full path into the errors of calls that are relative to a folder."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
