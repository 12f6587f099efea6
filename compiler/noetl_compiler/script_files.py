"""Reads a script in a file beside a playbook: below the playbook's folder, through no link, within a limit.

Older playbooks name their scripts from the folder of the whole project. Where such a path leads into the folder of the
playbook, its beginning is the end of that folder's own path, and what is behind it is the path from there.

A playbook may come from somebody else, so it must not name any file that its reader could open. Each part of the path
is opened from the folder before it and never followed, so that nothing can be exchanged for a link in between.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path, PurePosixPath

from noetl_compiler.language.scripts import MAX_BYTES
from noetl_compiler.regular_file import kind_of, read_in

__all__ = ["ScriptError", "decoded_script", "read_script", "script_path"]


class ScriptError(ValueError):
    """The script cannot be had. ``hint`` is the remedy, if there is one."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def script_path(playbook: str, address: str) -> PurePosixPath:
    """Return the path of a script from the folder of the playbook's file. Raises ScriptError for one that leads out of
    it.
    """
    path = PurePosixPath(address)
    if not Path(playbook).is_file():
        raise ScriptError("scripts are read from the playbook's folder, but it is not a file", "save it to a file")
    if path.is_absolute() or ".." in path.parts or "://" in address or "\0" in address:
        raise ScriptError(
            f'"{address}" is not a path below the folder of the playbook', "put the script into that folder"
        )
    if not path.parts:
        raise ScriptError("the script has no path")
    folder = Path(playbook).parent
    return path if os.path.lexists(folder / path) else _from_folder(folder, path)


def _from_folder(folder: Path, path: PurePosixPath) -> PurePosixPath:
    around = folder.resolve().parts
    for count in range(len(path.parts) - 1, 0, -1):
        if around[-count:] == path.parts[:count]:
            return PurePosixPath(*path.parts[count:])
    return path


def read_script(playbook: str, address: str) -> str:
    """Return the text of a script. Raises ScriptError."""
    path, folder = script_path(playbook, address), Path(playbook).parent
    try:
        return decoded_script(_read(folder, path), str(path))
    except FileNotFoundError:
        raise ScriptError(f'there is no file "{path}" in the folder of the playbook', _similar(folder, path)) from None
    except OSError as error:
        raise ScriptError(f'cannot read "{path}": {(error.strerror or str(error)).lower()}') from error


def decoded_script(data: bytes, name: str) -> str:
    """Return the text of what was read, of at most MAX_BYTES. Raises ScriptError."""
    if len(data) > MAX_BYTES:
        raise ScriptError(f'"{name}" is longer than {MAX_BYTES:,} bytes')
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScriptError(f'"{name}" is not UTF-8 text: byte 0x{data[error.start]:02X} at {error.start}') from error


def _read(folder: Path, path: PurePosixPath) -> bytes:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in path.parts[:-1]:
            _refuse_link(part, opened)
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened)
            os.close(opened)
            opened = inner
        _refuse_link(path.name, opened)
        return read_in(opened, path.name, MAX_BYTES + 1)
    finally:
        os.close(opened)


def _refuse_link(part: str, folder: int) -> None:
    found = os.stat(part, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, f'"{part}" is {kind_of(found)}')


def _similar(folder: Path, path: PurePosixPath) -> str:
    """Return a hint with the longest suffix of the path that exists: older paths began at the folder of the project."""
    ends = (PurePosixPath(*path.parts[first:]) for first in range(1, len(path.parts)))
    found = next((end for end in ends if (folder / end).is_file()), None)
    return f'did you mean "{found}"?' if found else "paths of scripts begin at the folder of the playbook"
