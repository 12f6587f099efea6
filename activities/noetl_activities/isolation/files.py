"""The files that a task may access: an allow-list for landlock.

Readable: Python with its libraries, system programs and libraries, and what name resolution, TLS and time zones need in
/etc. A folder on the import path outside Python may be a whole project, as after an editable install, with credentials
and version control, so only its packages and modules are readable. Writable: the folder of the task, and the
directories that the deployment lists. If one of these contains a hidden path, such as the worker's credentials file,
everything else in it is allowed instead.
"""

from __future__ import annotations

import os
import sys

from noetl_activities.isolation.landlock import LIST, READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HARDWARE = ("/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage")
"""The number of processors and the size of memory. DuckDB crashes if it cannot read them."""

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/proc", *HARDWARE)
"""In /proc, landlock denies access to the environment, memory and files of other processes."""

SETTINGS = (
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "gai.conf",
    "group",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "protocols",
    "resolv.conf",
    "services",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "timezone",
)
"""Below /etc."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def allowed_paths(writable: Sequence[str], hidden_paths: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the allowed paths with their landlock rights. ``hidden_paths`` are real paths."""
    python = (sys.prefix, sys.base_prefix, os.path.realpath(sys.executable))
    for tree in (*SYSTEM, *python):
        yield from _without_hidden(tree, READ, hidden_paths)
    for folder in sorted({*sys.path} - {""}):
        if not any(_is_within(os.path.realpath(folder), os.path.realpath(tree)) for tree in python):
            for path, rights in _importable_paths(folder):
                yield from _without_hidden(path, rights, hidden_paths)
    for name in SETTINGS:
        yield f"/etc/{name}", READ
    for device in DEVICES:
        yield device, WRITE
    for tree in writable:
        yield from _without_hidden(tree, WRITE, hidden_paths)


def _importable_paths(folder: str) -> Iterator[tuple[str, int]]:
    """Yield the packages and modules in a folder on the import path, or the path itself if it is an archive.

    Importing lists the folder, so the names of all files in it can be read.
    """
    if not os.path.isdir(folder):
        yield folder, READ
        return
    yield folder, LIST
    for name in _list_folder(folder):
        path = os.path.join(folder, name)
        if name.endswith((".py", ".so", ".dist-info", ".egg-info")) or os.path.isfile(
            os.path.join(path, "__init__.py")
        ):
            yield path, READ


def _list_folder(folder: str) -> list[str]:
    """Return the names in a folder; none if the account of the task may not list it."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _without_hidden(tree: str, rights: int, hidden_paths: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the tree, or everything in it that is not hidden. A tree below a hidden path is allowed, such as a virtual
    environment below NOETL_HOME.
    """
    real_path = os.path.realpath(tree)
    if real_path in hidden_paths:
        return
    if not any(_is_within(path, real_path) for path in hidden_paths):
        yield real_path, rights
        return
    yield real_path, LIST
    with os.scandir(real_path) as entries:
        children = [entry.path for entry in entries if not entry.is_symlink()]
    for child in children:
        yield from _without_hidden(child, rights, hidden_paths)


def _is_within(path: str, tree: str) -> bool:
    return path == tree or path.startswith(tree.rstrip("/") + "/")
