"""Permissions, owners, times and extended attributes of files that belong to the account of a worker that is not root,
and to which landlock has nothing to say.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl_activities.isolation.probe import describe_isolation
from noetl_activities.isolation.settings import TASK_DIRECTORIES_VARIABLE, read_settings

from . import ordinary_account

ISOLATION = asyncio.run(describe_isolation())
ACTIVE = ISOLATION.partition("; gaps:")[0]
pytestmark = pytest.mark.skipif("landlock" not in ACTIVE or "sockets by list" not in ACTIVE, reason=ISOLATION)

UID = os.getuid() or 54_322
"""Root's tasks have accounts of their own, so root's tests take on another account."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of the account, with a task's folder, a directory that the deployment names, and what is neither."""
    place = Path(tempfile.mkdtemp())
    for path in (place, place / "task", place / "named", place / "outside"):
        path.mkdir(exist_ok=True)
        os.chown(path, UID, -1)
    for path in (place / "outside/secret", place / "named/credentials.yaml"):
        path.write_text("secret")
        path.chmod(0o600)
        os.chown(path, UID, -1)
    yield place
    shutil.rmtree(place)


def outcome_of_change(code: str, place: Path, *, own_mounts: bool, hidden_path: str = "") -> str:
    environment = {TASK_DIRECTORIES_VARIABLE: str(place / "named"), "NOETL_CREDENTIALS": hidden_path}
    call = {
        "code": code,
        "given": {"secret": str(place / "outside/secret"), "outside": str(place / "outside"), "hidden": hidden_path},
        "folder": str(place / "task"),
        "settings": read_settings(environment),
        "own_mounts": own_mounts,
    }
    command = [sys.executable, "-P", str(Path(ordinary_account.__file__)), str(UID), json.dumps(call)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def has_own_mounts() -> bool:
    """Whether an account without rights has mounts of its own here."""
    program = "import os\nfrom noetl_activities.isolation import accounts, mounts, system\n"
    program += f"if not os.getuid(): os.setresuid({UID}, {UID}, {UID})\n"
    program += "system.unshare(0x10000000)\nprint(mounts.become_own(), end='')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return done.stdout == "True"


EITHER = [False, *([True] if has_own_mounts() else [])]

CHANGES = {
    "permissions": "os.chmod(secret, 0o666)",
    "of a folder": "os.chmod(outside, 0o777)",
    "through a link": "os.symlink(secret, 'link'); os.chmod('link', 0o666)",
    "beside a descriptor": "os.chmod('secret', 0o666, dir_fd=os.open(outside, os.O_PATH))",
    "through a path alone": "os.chmod(f'/proc/self/fd/{os.open(secret, os.O_PATH)}', 0o666)",
    "by a program": "assert os.spawnl(os.P_WAIT, '/bin/chmod', 'chmod', '666', secret) == 0",
    "owner": "os.chown(secret, -1, os.getgid())",
    "times": "os.utime(secret, (0, 0))",
    "times to now": "os.utime(secret)",
    "times of a link": "os.utime(secret, (0, 0), follow_symlinks=False)",
    "extended attribute": "os.setxattr(secret, 'user.evil', b'1')",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("own_mounts", EITHER)
def test_attributes_of_files_outside_stay(change: str, place: Path, own_mounts: bool) -> None:
    before = attributes_below(place)
    assert outcome_of_change(CHANGES[change], place, own_mounts=own_mounts) != "got through"
    assert attributes_below(place) == before


@pytest.mark.parametrize("change", CHANGES)
def test_control_without_the_sandbox_the_attributes_change(change: str, place: Path) -> None:
    """The same changes by the same account, in a process that nothing confines."""
    before = attributes_below(place)
    inputs = {"secret": str(place / "outside/secret"), "outside": str(place / "outside")}
    code = "import json, os, sys\nos.chdir(sys.argv[1])\nif not os.getuid(): os.setresuid(*[int(sys.argv[2])] * 3)\n"
    code += f"exec({CHANGES[change]!r}, {{'os': os, **json.loads(sys.argv[3])}})"
    command = [sys.executable, "-c", code, str(place / "task"), str(UID), json.dumps(inputs)]
    subprocess.run(command, check=True)
    assert attributes_below(place) != before


def attributes_below(place: Path) -> list[object]:
    return [attributes_of(path) for path in (place / "outside", place / "outside/secret")]


def attributes_of(path: Path) -> object:
    stat = path.stat()
    return stat.st_mode, stat.st_uid, stat.st_gid, stat.st_mtime_ns, stat.st_ctime_ns, os.listxattr(path)


READABLE = "/etc/hosts"


@pytest.mark.parametrize("own_mounts", EITHER)
@pytest.mark.parametrize(
    "change", ["os.fchmod(opened, 0o666)", "os.utime(opened)", "os.setxattr(opened, 'user.evil', b'1')"]
)
def test_a_descriptor_that_is_open_for_reading_does_not_do(change: str, own_mounts: bool, place: Path) -> None:
    """Of a file of the account that tasks may read, as the libraries of its worker: root's tests have none, and
    permissions alone would keep others, so the error says who has refused.
    """
    code = f"""
import errno
opened = os.open({READABLE!r}, os.O_RDONLY)
try:
    {change}
except OSError as error:
    assert error.errno == (errno.EROFS if {own_mounts} else errno.EPERM)
    raise FileNotFoundError
"""
    if own_mounts or "fchmod" in change:
        assert outcome_of_change(code, place, own_mounts=own_mounts) == "FileNotFoundError"


@pytest.mark.parametrize(
    "code",
    [
        "open('file', 'w').close(); os.chmod('file', 0o640); os.utime('file', (0, 0))",
        "open('a', 'w').close(); shutil.copy2('a', 'b'); shutil.copytree('.', '../named/all')",
        "tempfile.TemporaryDirectory().cleanup(); os.fchmod(tempfile.mkstemp()[0], 0o644)",
        "zipfile.ZipFile('z', 'w').writestr('file', 'text'); zipfile.ZipFile('z').extractall('out')",
        "open('../named/file', 'w').close(); os.chmod('../named/file', 0o640)",
        "shutil.move(shutil.copy('/etc/hosts', 'file'), '../named/file')",
    ],
)
@pytest.mark.skipif(True not in EITHER, reason="no mounts for an account without rights")
def test_attributes_of_its_own_files_are_its_own(code: str, place: Path) -> None:
    assert outcome_of_change(code, place, own_mounts=True) == "got through"


def test_without_mounts_of_its_own_a_task_writes_files_but_not_their_attributes(place: Path) -> None:
    assert (
        outcome_of_change("open('file', 'w').write('x'); shutil.copyfile('file', 'b')", place, own_mounts=False)
        == "got through"
    )
    assert (
        outcome_of_change("open('file', 'w').close(); os.chmod('file', 0o640)", place, own_mounts=False)
        == "PermissionError"
    )


@pytest.mark.parametrize("own_mounts", EITHER)
def test_files_excluded_from_a_named_directory_keep_their_attributes(own_mounts: bool, place: Path) -> None:
    hidden_path = str(place / "named/credentials.yaml")
    assert (
        outcome_of_change("os.chmod(hidden, 0o666)", place, own_mounts=own_mounts, hidden_path=hidden_path)
        != "got through"
    )
    assert Path(hidden_path).stat().st_mode & 0o777 == 0o600
