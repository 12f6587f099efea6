"""Opens files of the stack, only if they are regular files of this account.

A name may be a trap: a link that redirects a write, a hard link of another file, a FIFO that blocks forever, or a file
whose owner changes it later. So a folder is opened first and everything in it is opened relative to
that descriptor; links are never followed (O_NOFOLLOW), opening a FIFO does not block (O_NONBLOCK), and an opened file
is checked before anything is read, written or truncated. New content is written to a file with a random name that must
not exist (O_EXCL), which then replaces the old file, so a reader sees either the old or the new content.

All functions raise UnsafeFileError, an OSError whose ``strerror`` describes the problem with ``filename``.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from noetl_compiler.regular_file import file_type

__all__ = [
    "DRAFT_SUFFIX",
    "OF_A_FOLDER",
    "OTHERS_MAY_WRITE",
    "UnsafeFileError",
    "check_entries",
    "check_folder",
    "make_folder",
    "open_file",
    "open_log",
    "read_text",
    "refuse_unless_plain",
    "replace_file",
    "replace_text",
    "write_whole",
]

DRAFT_SUFFIX = ".new"
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
OF_A_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
OF_A_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeFileError(OSError):
    """The path is not a regular file or folder, or others can change it."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(errno.EPERM, problem, str(path))


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this account alone."""
    if not folder.parent.exists():
        make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)


def check_folder(folder: Path) -> None:
    """Raises UnsafeFileError unless it is a folder of this account that no other account can write to."""
    with _opened_folder(folder):
        pass


def check_entries(folder: Path) -> None:
    """Check the entries of a folder, which must be folders or regular files without hard links."""
    with _opened_folder(folder) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # its owner may be at work
                status = entry.stat(follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    _refuse_unless_own(folder / entry.name, status)


def open_file(path: Path, flags: int) -> int:
    """Open a regular file of this account in a folder of this account. ``flags`` are those of os.open."""
    with _opened_folder(path.parent) as folder:
        with suppress(FileNotFoundError):  # said of the file as it is: opening some kinds has effects, or other words
            _refuse_unless_own(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False))
        with _full_name(path):
            descriptor = os.open(path.name, flags | OF_A_FILE, 0o600, dir_fd=folder)
        try:
            _refuse_unless_own(path, os.fstat(descriptor))
        except UnsafeFileError:
            os.close(descriptor)
            raise
        return descriptor


def read_text(path: Path) -> str:
    """Return the whole file. Raises FileNotFoundError too."""
    with os.fdopen(open_file(path, os.O_RDONLY), encoding="utf-8", errors="replace") as file:
        return file.read()


def open_log(path: Path, *, append: bool = False) -> TextIO:
    """Open a log file for writing; truncate it unless ``append``."""
    descriptor = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    if not append:
        os.ftruncate(descriptor, 0)
    return os.fdopen(descriptor, "a", encoding="utf-8")


def write_whole(path: Path, text: str) -> None:
    """Replace a file of this account atomically; only its owner can read it."""
    with _opened_folder(path.parent) as folder:
        _replace(folder, path, text, 0o600)


def replace_text(path: Path, text: str) -> None:
    """Replace a user's file atomically; permissions and line ends are kept.

    The folder may be shared. A file that is not regular, or has hard links, is refused."""
    folder = os.open(path.parent, OF_A_FOLDER)
    try:
        kept = None
        with suppress(FileNotFoundError):
            status = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
            refuse_unless_plain(path, status)
            kept = stat.S_IMODE(status.st_mode)
        _replace(folder, path, text, 0o666, lambda draft: None if kept is None else os.fchmod(draft, kept))
    finally:
        os.close(folder)


def replace_file(path: Path, text: str, prepare: Callable[[int], None]) -> None:
    """Replace a file atomically, in a folder that the caller has checked; only its owner can read it.

    ``prepare`` is given the open file before it takes its place."""
    folder = os.open(path.parent, OF_A_FOLDER)
    try:
        _replace(folder, path, text, 0o600, prepare)
    finally:
        os.close(folder)


def _replace(folder: int, path: Path, text: str, mode: int, prepare: Callable[[int], None] | None = None) -> None:
    """``mode`` is less the umask."""
    draft = f".{path.name}.{secrets.token_hex(8)}{DRAFT_SUFFIX}"
    with _full_name(path):
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OF_A_FILE, mode, dir_fd=folder)
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
def _opened_folder(folder: Path) -> Generator[int]:
    _refuse_link(folder)
    with _full_name(folder):
        descriptor = os.open(folder, OF_A_FOLDER)
    try:
        status = os.fstat(descriptor)
        _refuse_unless_ours(folder, status)
        yield descriptor
    finally:
        os.close(descriptor)


def _refuse_link(folder: Path) -> None:
    if folder.is_symlink():
        raise UnsafeFileError(folder, "it is a link")


def _refuse_unless_own(path: Path, status: os.stat_result) -> None:
    refuse_unless_plain(path, status)
    _refuse_unless_ours(path, status)


def refuse_unless_plain(path: Path, status: os.stat_result) -> None:
    """Raises UnsafeFileError for a link, a hard link, and anything but a file; ``found`` is its status."""
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeFileError(path, f"it is {file_type(status)}")
    if status.st_nlink > 1:
        raise UnsafeFileError(path, f"it is a hard link: the file has {status.st_nlink} names")


def _refuse_unless_ours(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise UnsafeFileError(path, f"it belongs to another user (uid {status.st_uid})")
    if status.st_mode & OTHERS_MAY_WRITE:
        raise UnsafeFileError(path, "other users can write to it (run chmod go-w)")


@contextmanager
def _full_name(path: Path) -> Generator[None]:
    """Put the whole path into errors of calls that are relative to a folder."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
