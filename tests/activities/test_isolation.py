"""What a python task cannot reach, tried by tasks. Each attack gets through in a process that nothing confines."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import noetl_temporal
from dev.attack.task_code import CONNECTS, FAILING, FILES, LIBC, PROCESSES, first_address, unconfined
from noetl_activities.isolation import settings
from noetl_activities.isolation.files import allowed_paths
from noetl_activities.isolation.landlock import LIST
from noetl_activities.isolation.probe import describe_isolation
from noetl_activities.isolation.settings import TASK_PORTS_VARIABLE
from noetl_activities.python.tool import TOOL
from noetl_activities.variables import STACK_PORTS_VARIABLE
from noetl_temporal.stack.addresses import Addresses

from .conftest import Context, request
from .test_python import read_finished_text

PR_GET_DUMPABLE = 3
ISOLATION = asyncio.run(describe_isolation())
ACTIVE = ISOLATION.partition("; gaps:")[0]
pytestmark = pytest.mark.skipif("landlock" not in ACTIVE, reason=ISOLATION)


async def run_attack(code: str, **inputs: Any) -> str:
    """The type of the error that a task ends with, or "got through"."""
    outcome = await TOOL.run(request("python", code=code, input=inputs, limit=None), Context())
    return outcome.error.code or outcome.error.message if outcome.error else "got through"


@pytest.fixture
def victim() -> Iterator[int]:
    """A process of the worker's account with a secret in its environment: another worker, the stack's."""
    environment = {**os.environ, "NOETL_CREDENTIAL_PG": "secret"}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=environment) as process:
        yield process.pid
        process.kill()


TRACING_ATTACKS = {"memory", "ptrace", "memory by a call"} if Path("/proc/sys/kernel/yama").exists() else set[str]()
"""What Yama, where there is one, keeps from any process but a parent."""


@pytest.mark.parametrize("attack", PROCESSES)
async def test_a_task_cannot_access_another_process(attack: str, victim: int) -> None:
    inputs: dict[str, Any] = {"victim": victim, "address": first_address(victim)}
    assert await run_attack(PROCESSES[attack], **inputs) in ("PermissionError", "ProcessLookupError")
    if attack not in TRACING_ATTACKS:
        assert unconfined(PROCESSES[attack], **inputs) == "got through"


@pytest.mark.parametrize("attack", ["environment", "memory", "ptrace"])
async def test_a_task_cannot_access_its_supervisor(attack: str) -> None:
    assert await run_attack("victim = os.getppid()\n" + PROCESSES[attack]) == "PermissionError"


async def test_the_worker_itself_is_closed_to_its_own_account() -> None:
    """After a task, the worker is not dumpable: /proc/<worker> belongs to root, and nobody can trace it."""
    await run_attack("result = 1")
    assert ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0
    assert unconfined("") == "got through"  # it starts processes as before


@pytest.mark.parametrize("attack", FILES)
async def test_a_task_cannot_access_files_outside_its_folder(
    attack: str, task_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The credentials file, and the stack's folder."""
    monkeypatch.chdir(tmp_path)
    secret = tmp_path / "credentials.yaml"
    secret.write_text("pg: {password: secret}")
    inputs = {"secret": str(secret), "folder": str(task_folder)}
    effect = await run_attack(FILES[attack], **inputs)
    assert effect in ("PermissionError", "OSError", "CalledProcessError")
    assert unconfined(FILES[attack], **inputs) == "got through"


OTHERS = ("/root", "/home", "/etc/shadow", "/tmp", "/var/log", "/proc/1/environ", "/dev/mem", str(Path.home()))


@pytest.mark.parametrize("path", OTHERS)
async def test_paths_outside_of_the_sandbox_are_not_accessible(path: str) -> None:
    attack = "os.listdir(path) if os.path.isdir(path) else open(path)"
    assert await run_attack(attack, path=path) in ("PermissionError", "FileNotFoundError")


async def test_in_a_project_on_the_import_path_only_modules_are_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after ``pip install -e``: credentials may lie in it."""
    project = tmp_path / "project"
    (project / "package").mkdir(parents=True)
    for name in ("credentials.yaml", "package/__init__.py", "package/code.py", "module.py"):
        (project / name).write_text("found = 1")
    monkeypatch.setattr(sys, "path", [str(project), *sys.path])
    paths = dict(allowed_paths([], []))
    assert paths[str(project)] == LIST
    assert {path for path in paths if path.startswith(f"{project}/")} == {f"{project}/package", f"{project}/module.py"}


async def test_a_task_cannot_access_the_project_of_the_worker() -> None:
    root = Path(noetl_temporal.__file__).parents[1]
    assert (
        await run_attack("import noetl_activities; assert open(noetl_activities.__file__).read() is not None")
        == "got through"
    )
    if (root / "README.md").exists():
        assert await run_attack("open(path)", path=str(root / "README.md")) == "PermissionError"


async def test_a_task_that_may_not_open_a_file_learns_which_it_may_open(tmp_path: Path) -> None:
    file = tmp_path / "order.yaml"
    file.write_text("a: 1")
    outcome = await TOOL.run(request("python", code="open(path)", input={"path": str(file)}), Context())
    assert outcome.error is not None
    assert outcome.error.message == (
        f"PermissionError: [Errno 13] Permission denied: '{file}' (line 1 of the code): a task uses files in its own "
        "folder and in the directories of NOETL_TASK_DIRECTORIES of the worker"
    )


def test_a_file_may_be_among_the_folders_that_are_listed(tmp_path: Path) -> None:
    """As beside credentials in a project on the import path; the kernel refuses the rule that this would make."""
    file = tmp_path / "module.py"
    file.write_text("")
    code = f"""
from noetl_activities.isolation import landlock, system
system.prctl(system.PR_SET_NO_NEW_PRIVS, 1)
landlock.restrict(landlock.abi(), [({str(file)!r}, landlock.LIST), ({str(tmp_path)!r}, landlock.LIST)], [])
import os; print(os.listdir({str(tmp_path)!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("['module.py']\n", 0), done.stderr


async def test_named_directories_are_accessible_except_credentials_in_them(
    task_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, data = task_folder / "credentials.yaml", task_folder / "data"
    for file in (secret, data):
        file.write_text("text")
        file.chmod(0o666)
    inputs = {"secret": str(secret), "data": str(data), "folder": str(task_folder)}
    assert await run_attack("open(data, 'a').write(open(secret).read())", **inputs) == "got through"
    monkeypatch.setenv("NOETL_CREDENTIALS", str(secret))
    assert await run_attack("open(data, 'a').write('more')\nassert os.listdir(folder)", **inputs) == "got through"
    for attack in ("open(secret)", "os.rename(secret, data)", "os.rename(data, secret)", "os.link(secret, data + '2')"):
        assert await run_attack(attack, **inputs) in ("PermissionError", "OSError")


async def test_a_task_continues_with_the_files_of_another(task_folder: Path) -> None:
    code = "os.makedirs(folder + '/made', exist_ok=True); open(folder + '/made/file', 'a').write('x')"
    assert [await run_attack(code, folder=str(task_folder)) for _ in range(2)] == ["got through"] * 2
    assert (task_folder / "made/file").read_text() == "xx"


async def test_environment_variables_of_the_playbook_apply_only_inside_the_sandbox(
    tmp_path: Path, task_folder: Path
) -> None:
    """Python imports sitecustomize at its start."""
    (task_folder / "sitecustomize.py").write_text(f"open({str(tmp_path / 'reached')!r}, 'w').close()")
    environment = {"PYTHONPATH": str(task_folder), "LD_PRELOAD": "/nothing.so", "PYTHONHOME": "/nothing"}
    outcome = await TOOL.run(request("python", code="result = 1", env=environment), Context())
    assert outcome.result == 1
    assert not (tmp_path / "reached").exists()
    assert unconfined("", python_path=str(task_folder)) == "got through"
    assert (tmp_path / "reached").exists()


async def test_its_account_and_its_rights_are_its_own() -> None:
    code = "result = {line.split(':')[0]: line.split()[1:] for line in open('/proc/self/status')}"
    [first, second] = [(await TOOL.run(request("python", code=code), Context())).result for _ in range(2)]
    assert first["NoNewPrivs"] == ["1"]
    assert int(first["CapEff"][0], 16) in (0, 1 << 1, 1 << 2)  # to read where only root finds Python, if it must
    if os.getuid() == 0 and "own account" in ISOLATION:
        assert int(first["Uid"][0]) >= 0x70000000
        assert first["Uid"] != second["Uid"]


@pytest.mark.parametrize(
    ("attack", "error"),
    [
        ("bytearray(100 << 30)", "MemoryError"),
        ("import mmap; mmap.mmap(-1, 100 << 30)", "OSError"),
        ("open('file', 'w').truncate(100 << 30)", "OSError"),
        ("file = open('file', 'w'); file.seek(100 << 30); file.write('x'); file.flush()", "OSError"),
        ("file = open('/dev/shm/file', 'w'); file.truncate(100 << 30)", "OSError"),
        ("os.memfd_create('x')", "PermissionError"),
        (f"{LIBC}failed = libc.shmget(0, 1, 0o1600){FAILING}", "PermissionError"),
        ("kept = [open(os.devnull) for _ in range(100_000)]", "OSError"),
        ("import resource; resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))", "ValueError"),
        ("import resource; assert resource.getrlimit(resource.RLIMIT_CORE) != (0, 0)", "AssertionError"),
        ("assert open('/proc/self/oom_score_adj').read() != '1000\\n'", "AssertionError"),
        ("open('/proc/self/oom_score_adj', 'w').write('0')", "OSError or PermissionError"),
    ],
)
async def test_an_attack_uses_only_limited_resources(attack: str, error: str) -> None:
    assert await run_attack(attack) in error.split(" or ")


NEEDS_PROCESS_LIMIT = pytest.mark.skipif("a limit on processes" not in ACTIVE, reason=ISOLATION)
FEW = 64
"""The limit on processes here: enough to see it hold, and a machine does not notice them."""


@pytest.fixture
def few_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "MAX_PROCESSES", FEW)


FORKS = """
import os, time
started = 0
for _ in range(2 * limit):
    try:
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
            os._exit(0)
        started += 1
    except OSError:
        break
"""
"""Forks a fixed number of times at most, in one process; what it starts sleeps, in a session of its own."""

IN_A_NAMESPACE = LIBC + "libc.unshare(0x10000000)\n"


@NEEDS_PROCESS_LIMIT
async def test_its_limit_on_processes_is_set(few_processes: None) -> None:
    code = "import resource\nassert resource.getrlimit(resource.RLIMIT_NPROC) == (limit, limit)"
    assert await run_attack(code, limit=FEW) == "got through"


@NEEDS_PROCESS_LIMIT
@pytest.mark.parametrize("prefix", ["", IN_A_NAMESPACE])
async def test_its_processes_are_limited_and_end_with_it(prefix: str, few_processes: None) -> None:
    code = f"{prefix}{FORKS}result = [started, os.getcwd()]"
    outcome = await TOOL.run(request("python", code=code, input={"limit": FEW}, limit=None), Context())
    assert outcome.error is None
    started, folder = outcome.result
    assert FEW / 2 < started < FEW
    assert not working_in(folder)


@NEEDS_PROCESS_LIMIT
async def test_all_that_it_has_started_ends_when_its_call_does(task_folder: Path, few_processes: None) -> None:
    code = f"{FORKS}open(file, 'w').write(os.getcwd() + '\\n')\ntime.sleep(600)"
    inputs: dict[str, Any] = {"limit": FEW, "file": str(task_folder / "folder")}
    running = asyncio.create_task(TOOL.run(request("python", code=code, input=inputs, limit=None), Context()))
    async with asyncio.timeout(60):
        while not (folder := read_finished_text(task_folder / "folder").strip()):
            await asyncio.sleep(0.1)
        assert len(working_in(folder)) > FEW / 2
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert not working_in(folder)


def working_in(folder: str) -> list[int]:
    return [int(process.name) for process in Path("/proc").glob("[0-9]*") if folder == cwd(process)]


def cwd(process: Path) -> str:
    try:
        return str((process / "cwd").readlink()).removesuffix(" (deleted)")
    except OSError:
        return ""


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """A server on loopback that accepts, as the kernel does for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


HAS_MULTIPATH = Path("/proc/sys/net/mptcp").exists()


@pytest.mark.skipif("TCP ports by list" not in ISOLATION, reason=ISOLATION)
@pytest.mark.parametrize("attack", CONNECTS)
async def test_ports_that_are_not_named_are_not_accessible(attack: str, listening: socket.socket) -> None:
    inputs: dict[str, Any] = {"port": listening.getsockname()[1]}
    assert await run_attack(CONNECTS[attack], **inputs) in ("PermissionError", "OSError")
    if attack != "Multipath TCP" or HAS_MULTIPATH:
        assert unconfined(CONNECTS[attack], **inputs) == "got through"


@pytest.mark.stack
@pytest.mark.skipif("TCP ports by list" not in ISOLATION, reason=ISOLATION)
async def test_a_task_cannot_access_the_servers_of_the_stack(servers: Addresses) -> None:
    """Temporal's has no login: whoever connects terminates runs."""
    for address in (servers.temporal, servers.postgres.rpartition("@")[2].partition("/")[0]):
        inputs: dict[str, Any] = {"port": int(address.rpartition(":")[2])}
        assert await run_attack(CONNECTS["TCP"], **inputs) == "PermissionError"
        assert unconfined(CONNECTS["TCP"], **inputs) == "got through"


@pytest.mark.skipif("TCP ports by list" not in ISOLATION, reason=ISOLATION)
async def test_a_named_port_is_accessible_unless_it_is_of_the_stack(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = listening.getsockname()[1]
    monkeypatch.setenv(TASK_PORTS_VARIABLE, f"443, {port}")
    assert await run_attack(CONNECTS["TCP"], port=port) == "got through"
    monkeypatch.setenv(STACK_PORTS_VARIABLE, str(port))
    assert await run_attack(CONNECTS["TCP"], port=port) == "PermissionError"


@pytest.mark.skipif("sockets by list" not in ISOLATION, reason=ISOLATION)
async def test_a_task_cannot_access_keys_of_the_account() -> None:
    """keyctl's first operation: the id of a keyring."""
    attack = f"{LIBC}failed = libc.syscall({250 if os.uname().machine == 'x86_64' else 219}, 0, -4, 1){FAILING}"
    assert await run_attack(attack) == "PermissionError"
    assert unconfined(attack) == "got through"


@pytest.mark.skipif("sockets by list" not in ISOLATION, reason=ISOLATION)
async def test_unix_sockets_are_not_accessible(task_folder: Path) -> None:
    """Postgres, Docker and D-Bus listen on them. Pairs, which event loops use, are allowed."""
    path = str(task_folder / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        (task_folder / "socket").chmod(0o777)
        attack = "import socket; socket.socket(socket.AF_UNIX).connect(path)"
        assert await run_attack(attack, path=path) == "PermissionError"
        assert unconfined(attack, path=path) == "got through"
    assert (
        await run_attack("import asyncio, socket; socket.socketpair(); asyncio.run(asyncio.sleep(0))") == "got through"
    )


DATAGRAMS = "import socket\na, b = socket.socketpair(type=kind)\na.sendto(b'x', path)"


@pytest.mark.skipif("sockets by list" not in ISOLATION, reason=ISOLATION)
@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK])
async def test_a_pair_does_not_send_to_another_unix_socket(kind: int, task_folder: Path) -> None:
    """The system's log is one of them."""
    path = str(task_folder / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(path)
        (task_folder / "socket").chmod(0o777)
        assert await run_attack(DATAGRAMS, path=path, kind=int(kind)) == "PermissionError"
        assert unconfined(DATAGRAMS, path=path, kind=int(kind)) == "got through"


@pytest.mark.skipif("sockets by list" not in ISOLATION, reason=ISOLATION)
async def test_a_task_does_not_listen_on_a_port_that_the_kernel_chooses() -> None:
    attack = "import socket; socket.socket().listen()"
    assert await run_attack(attack) == "PermissionError"
    assert unconfined(attack) == "got through"


@pytest.fixture
def segment() -> Iterator[int]:
    """The key of shared memory of System V, and name of a file of POSIX's, that belong to our account."""
    libc, key = ctypes.CDLL(None), os.getpid()
    made, file = libc.shmget(key, 4096, 0o1600), Path("/dev/shm", str(key))
    assert made >= 0
    file.touch()
    yield key
    libc.shmctl(made, 0, None)
    file.unlink()


@pytest.mark.skipif("own /dev/shm" not in ISOLATION, reason=ISOLATION)
@pytest.mark.parametrize("attack", [f"{LIBC}failed = libc.shmget(key, 0, 0){FAILING}", "open('/dev/shm/' + str(key))"])
async def test_shared_memory_of_the_account_is_not_accessible(attack: str, segment: int) -> None:
    assert await run_attack(attack, key=segment) in ("FileNotFoundError", "PermissionError")
    assert unconfined(attack, key=segment) == "got through"


async def test_common_libraries_work() -> None:
    """Locks need /dev/shm, names need /etc and netlink, certificates and time zones their files."""
    code = """
import concurrent.futures, socket, ssl, tempfile, uuid, zoneinfo
import duckdb, httpx
with concurrent.futures.ProcessPoolExecutor(2) as pool:
    assert list(pool.map(abs, [-1, 2])) == [1, 2]
with concurrent.futures.ThreadPoolExecutor(32) as pool:
    assert sum(pool.map(abs, range(100))) == 4950
assert duckdb.sql("select sum(i) from range(1000) t(i)").fetchall() == [(499500,)]
assert socket.getaddrinfo("localhost", 443)
assert ssl.create_default_context()
tempfile.TemporaryFile().write(b"text")
"""
    assert await run_attack(code) == "got through"


async def test_the_active_limits_are_reported_in_one_line() -> None:
    assert ISOLATION.startswith("tasks: ")
    assert "limits on memory and file size" in ISOLATION
    assert "\n" not in ISOLATION
