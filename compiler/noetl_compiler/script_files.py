"""Read a script from a file below the folder of the playbook, through no link and within a size limit.

Older playbooks give paths relative to the folder of the project. Such a path begins with the last parts of the path of
the playbook's folder, which are removed: ``etl/load/job.py`` is ``job.py`` in ``/project/etl/load``.

A playbook may come from somebody else, so it must not read arbitrary files. Each part of the path is opened relative to
the folder before it, and links are not followed, so that no part can be replaced by a link meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path, PurePosixPath

from noetl_compiler.language.scripts import MAX_BYTES
from noetl_compiler.regular_file import file_type, read_regular_in

__all__ = ["ScriptError", "decode_script", "read_script", "script_path"]


class ScriptError(ValueError):
    """A script cannot be fetched. ``hint`` is the remedy, if there is one."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def script_path(playbook: str, address: str) -> PurePosixPath:
    """Return the path of a script relative to the folder of the playbook. Raises ScriptError if it is outside of it."""
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
    return path if os.path.lexists(folder / path) else _without_project_prefix(folder, path)


def _without_project_prefix(folder: Path, path: PurePosixPath) -> PurePosixPath:
    folder_parts = folder.resolve().parts
    for count in range(len(path.parts) - 1, 0, -1):
        if folder_parts[-count:] == path.parts[:count]:
            return PurePosixPath(*path.parts[count:])
    return path


def read_script(playbook: str, address: str) -> str:
    """Return the text of a script. Raises ScriptError."""
    path, folder = script_path(playbook, address), Path(playbook).parent
    try:
        return decode_script(_read(folder, path), str(path))
    except FileNotFoundError:
        raise ScriptError(
            f'there is no file "{path}" in the folder of the playbook', _similar_path_hint(folder, path)
        ) from None
    except OSError as error:
        raise ScriptError(f'cannot read "{path}": {(error.strerror or str(error)).lower()}') from error


def decode_script(data: bytes, name: str) -> str:
    """Decode the content of a script of at most MAX_BYTES. Raises ScriptError."""
    if len(data) > MAX_BYTES:
        raise ScriptError(f'"{name}" is longer than {MAX_BYTES:,} bytes')
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScriptError(f'"{name}" is not UTF-8 text: byte 0x{data[error.start]:02X} at {error.start}') from error


def _read(folder: Path, path: PurePosixPath) -> bytes:
    current = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in path.parts[:-1]:
            _refuse_link(part, current)
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=current)
            os.close(current)
            current = inner
        _refuse_link(path.name, current)
        return read_regular_in(current, path.name, MAX_BYTES + 1)
    finally:
        os.close(current)


def _refuse_link(part: str, folder: int) -> None:
    status = os.stat(part, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, f'"{part}" is {file_type(status)}')


def _similar_path_hint(folder: Path, path: PurePosixPath) -> str:
    """Return a hint with the longest suffix of the path that exists, as older paths are relative to the project."""
    suffixes = (PurePosixPath(*path.parts[index:]) for index in range(1, len(path.parts)))
    match = next((suffix for suffix in suffixes if (folder / suffix).is_file()), None)
    return f'did you mean "{match}"?' if match else "paths of scripts begin at the folder of the playbook"
