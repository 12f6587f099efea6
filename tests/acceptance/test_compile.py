"""``noetl compile`` as a person calls it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.site import NOETL, ROOT, Site

EXAMPLES = ROOT / "dev/examples"
ETL = str(EXAMPLES / "etl.yaml")


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("tree", "etl (examples/etl): 6 steps"),
        ("mermaid", "flowchart TD"),
        ("dot", 'digraph "etl" {'),
        ("json", "{"),
        ("svg", "<svg "),
        ("html", "<!doctype html>"),
    ],
)
def test_compile_writes_each_format(bare: Site, form: str, begins: str) -> None:
    done = bare.noetl("compile", ETL, "--format", form)
    assert done.returncode == 0
    assert done.stdout.startswith(begins)


def test_the_credentials_that_are_named_are_listed(bare: Site) -> None:
    result, as_json = bare.noetl("compile", ETL), bare.noetl("compile", ETL, "--format", "json")
    assert "\ncredentials: workload.credential (default pg_local)\n" in result.stdout
    assert json.loads(as_json.stdout)["credentials"] == [{"name": "pg_local", "template": "workload.credential"}]


ODD_PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: x}
workload: {country: NO}
workflow: [{step: start, tool: {kind: noop}}]
"""


@pytest.mark.parametrize(
    ("args", "status", "summary"),
    [((), 0, ""), (("--strict",), 1, "1 warning: failed because of --strict\n")],
    ids=["lenient", "strict"],
)
def test_warnings_fail_when_they_are_to(bare: Site, args: tuple[str, ...], status: int, summary: str) -> None:
    file = str(bare.write(ODD_PLAYBOOK))
    done = bare.noetl("compile", file, *args)
    assert done.returncode == status
    assert done.stdout.startswith("x: 2 steps")
    assert done.stderr.partition("help: quote it to make it a string, or write false\n")[2] == summary
    as_json = bare.noetl("compile", file, "--diagnostics", "json", *args)
    assert (as_json.returncode, len(json.loads(as_json.stdout))) == (status, 1)


def test_strict_is_content_with_a_playbook_without_findings(bare: Site) -> None:
    assert bare.noetl("compile", ETL, "--strict").returncode == 0


@pytest.mark.parametrize(
    ("environment", "is_coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
    ids=str,
)
def test_findings_in_a_pipe_have_colours_where_they_are_asked_for(
    bare: Site, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], is_coloured: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    errors = bare.noetl("compile", str(bare.write(ODD_PLAYBOOK))).stderr
    assert ("\x1b[1;33mwarning[NT113]\x1b[0m: the value NO" in errors) is is_coloured
    assert is_coloured or "\x1b" not in errors


def test_a_folder_is_checked_whole_and_other_yaml_is_left_out(bare: Site) -> None:
    (bare.folder / "books/deep").mkdir(parents=True)
    (bare.folder / "books/credentials.yaml").write_text("pg: {type: postgres}\n")
    (bare.folder / "books/good.yaml").write_text((EXAMPLES / "hello.yaml").read_text())
    (bare.folder / "books/deep/bad.yml").write_text("kind: Playbook\nworkflow: 3\n")
    done = bare.noetl("compile", "books")
    assert done.returncode == 1
    assert "# books/good.yaml" in done.stdout
    assert "books/deep/bad.yml:" in done.stderr
    assert "credentials" not in done.stdout + done.stderr


def test_several_are_written_below_a_folder(bare: Site) -> None:
    (bare.folder / "a.yaml").write_text((EXAMPLES / "hello.yaml").read_text())
    (bare.folder / "b.yaml").write_text((EXAMPLES / "hello.yaml").read_text())
    done = bare.noetl("compile", "a.yaml", "b.yaml", "--format", "svg", "-o", "pictures")
    assert done.returncode == 0
    assert sorted(file.name for file in (bare.folder / "pictures").iterdir()) == ["a.svg", "b.svg"]


def test_stdin_is_read(bare: Site) -> None:
    text = (EXAMPLES / "hello.yaml").read_text()
    done = subprocess.run([*NOETL, "compile", "-"], cwd=bare.folder, input=text, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("hello (examples/hello)")


def test_bytes_on_stdin_that_are_not_text_are_reported(bare: Site) -> None:
    done = subprocess.run([*NOETL, "compile", "-"], cwd=bare.folder, input=b"\xff\xfe\x00", capture_output=True)
    assert done.returncode == 2
    assert b"not UTF-8 text" in done.stderr
    assert b"Traceback" not in done.stderr


def test_costs_are_estimated_for_the_given_sizes(bare: Site) -> None:
    done = bare.noetl("compile", ETL, "--forecast", "--items", "fetch_all=10000", "--pages", "fetch_all=4")
    assert "assumed: nothing fails" in done.stdout
    assert "10,000  90,000" in done.stdout
    as_json = bare.noetl("compile", ETL, "--forecast", "--items", "fetch_all=10000", "--format", "json")
    assert json.loads(as_json.stdout)["steps"][1]["items"] == 10_000


def test_guarantees_are_reported_with_their_reasons(bare: Site) -> None:
    done = bare.noetl("compile", ETL, "--guarantees")
    assert "at least once: repeated when a worker is lost after the server has answered" in done.stdout
    as_json = bare.noetl("compile", ETL, "--guarantees", "--format", "json")
    report = {entry["task"]: entry["guarantee"] for entry in json.loads(as_json.stdout)}
    assert (report["create_table"], report["reset_flaky"], report["first_page"]) == (
        "exactly once",
        "at least once",
        None,
    )


def test_a_step_is_explained(bare: Site) -> None:
    done = bare.noetl("compile", ETL, "--explain", "fetch_all")
    assert "fetch_page: an activity noetl.http" in done.stdout
    assert "tool[1].spec.policy.rules[0]" in done.stdout
    both = bare.noetl("compile", ETL, "--explain", "count", "--explain", "end")
    assert "count_task" in both.stdout
    assert "end_task" in both.stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "Missing argument"),
        (["nowhere.yaml"], "no such file or folder: 'nowhere.yaml'"),
        (["."], "no playbook below '.'"),
        ([ETL, "--explain", "fetch_al"], 'did you mean "fetch_all"?'),
        ([ETL, "--forecast", "--items", "fetch_al=3"], 'did you mean "fetch_all"?'),
        ([ETL, "--forecast", "--items", "3"], "is not STEP=N"),
        ([ETL, "--forecast", "--items", "count=3"], "has no loop: loops are fetch_all"),
        ([ETL, "--forecast", "--pages", "count=3"], "has no pages: nothing calls it again"),
        ([ETL, "--forecast", "--pages", "fetch_al=3"], 'did you mean "fetch_all"?'),
        ([str(EXAMPLES), "--format", "svg"], "needs -o FOLDER"),
        ([ETL, "--items", "fetch_all=3"], "need --forecast or --format html"),
        ([ETL, "--set", "city=Oslo"], "--set and --payload need --forecast, --format html or a playbook with scripts"),
        ([ETL, "--forecast", "--format", "svg"], "--forecast prints a table or json"),
        ([ETL, "--explain", "count", "--format", "json"], "--explain prints text"),
        ([ETL, "--guarantees", "--format", "svg"], "--guarantees prints text or json"),
        ([""], "no such file or folder: ''"),
        ([ETL, "-o", "/proc/x"], "cannot write /proc/x"),
        ([ETL, "--forecast", "--payload", "{"], "is not JSON"),
    ],
)
def test_a_wrong_command_line_is_reported(bare: Site, args: list[str], says: str) -> None:
    done = bare.noetl("compile", *args)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_file_named_twice_is_compiled_once(bare: Site) -> None:
    (bare.folder / "a.yaml").write_text((EXAMPLES / "hello.yaml").read_text())
    done = bare.noetl("compile", "a.yaml", "./a.yaml", ".")
    assert done.returncode == 0
    assert done.stdout.count("hello (examples/hello)") == 1


def test_a_playbook_without_steps_is_reported_in_a_folder_too(bare: Site) -> None:
    (bare.folder / "empty.yaml").write_text("kind: Playbook\nmetadata: {name: x}\n")
    done = bare.noetl("compile", ".")
    assert done.returncode == 1
    assert "empty.yaml:1:1: error[NT101]" in done.stderr


def test_a_slash_makes_it_a_folder(bare: Site) -> None:
    assert bare.noetl("compile", ETL, "-o", "shown/").returncode == 0
    assert [file.name for file in bare.folder.rglob("*.txt")] == ["etl.txt"]


TRAPS: dict[str, tuple[Callable[[Path, Path], None], str]] = {
    "a link": (lambda path, victim: path.symlink_to(victim), "it is a link that leads out of shown"),
    "a hard link": (lambda path, victim: path.hardlink_to(victim), "it is a hard link: the file has 2 names"),
    "a FIFO": (lambda path, _: os.mkfifo(path), "it is a pipe"),
}


@pytest.mark.parametrize("output", ["shown", "shown/etl.txt"])
@pytest.mark.parametrize("kind", TRAPS)
def test_an_output_overwrites_nothing_through_another_name(bare: Site, kind: str, output: str) -> None:
    """Whoever made the folder made what lies in it."""
    make, says = TRAPS[kind]
    victim = bare.write("precious", "victim")
    (bare.folder / "shown").mkdir()
    make(bare.folder / "shown/etl.txt", victim)
    bare.write(Path(ETL).read_text(), "etl.yaml")
    done = bare.noetl("compile", "etl.yaml", "-o", output)
    assert (done.returncode, victim.read_text()) == (2, "precious")
    assert f"cannot write shown/etl.txt: {says}" in done.stderr


def test_an_output_replaces_a_plain_file_and_leaves_no_draft(bare: Site) -> None:
    (bare.folder / "shown").mkdir()
    old = bare.write("old", "shown/etl.txt")
    old.chmod(0o640)
    assert bare.noetl("compile", ETL, "-o", "shown/etl.txt").returncode == 0
    assert old.read_text().startswith("etl (examples/etl): 6 steps")
    assert old.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in (bare.folder / "shown").iterdir()] == ["etl.txt"]


def test_a_reader_that_closes_early_is_not_an_error(bare: Site) -> None:
    command = shlex.join([*NOETL, "compile", str(EXAMPLES), str(ROOT / "tests/compiler/corpus/ok")])
    done = subprocess.run(["bash", "-c", f"{command} 2>errors | head -1"], cwd=bare.folder, capture_output=True)
    assert done.stdout.startswith(b"# ")
    assert "Traceback" not in (bare.folder / "errors").read_text()


def test_calls_are_checked_against_a_catalog(bare: Site) -> None:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x}\n"
    step = "workflow:\n  - step: start\n    tool: {kind: playbook, path: examples/helo}\n"
    file = bare.write(head + step)
    assert bare.noetl("compile", str(file)).returncode == 0
    done = bare.noetl("compile", str(file), "--playbooks", str(EXAMPLES))
    assert done.returncode == 1
    assert 'error[NT601]: unknown playbook "examples/helo"' in done.stderr
    assert 'did you mean "examples/hello"?' in done.stderr


def test_findings_for_programs_are_all_that_is_on_stdout(bare: Site) -> None:
    file = bare.write("apiVersion: noetl.io/v2\nkind: Playbook\nworkflow: 3\n")
    as_json = bare.noetl("compile", str(file), "--diagnostics", "json")
    assert as_json.returncode == 1
    assert as_json.stderr == ""
    assert {entry["severity"] for entry in json.loads(as_json.stdout)} == {"error"}
    as_sarif = bare.noetl("compile", ETL, "--diagnostics", "sarif", "-o", "findings.sarif")
    assert as_sarif.returncode == 0
    assert json.loads((bare.folder / "findings.sarif").read_text())["version"] == "2.1.0"


def test_errors_are_shown_first_among_many_findings(bare: Site) -> None:
    steps_with_warnings = "".join(f"  - {{step: s{index}, tool: {{kind: noop}}}}\n" for index in range(2000))
    wrong = "  - {step: last, tool: {kind: nop}}\n"
    file = bare.write(
        f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: x}}\nworkflow:\n{steps_with_warnings}{wrong}"
    )
    done = bare.noetl("compile", str(file))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) < 1000
    assert 'error[NT501]: unknown tool kind "nop"' in done.stderr
    assert "1,901 more diagnostics" in done.stderr
    assert len(json.loads(bare.noetl("compile", str(file), "--diagnostics", "json").stdout)) == 2001


SCRIPT_PLAYBOOK = """\
metadata: {name: x}
workload: {script: lib/one.py}
workflow:
  - step: start
    tool:
      kind: python
      script: {uri: "{{ script }}", source: {type: file}}
"""


def test_code_in_another_file_is_shown_and_checked(bare: Site) -> None:
    file = bare.write(SCRIPT_PLAYBOOK)
    (file.parent / "lib").mkdir()
    (file.parent / "lib" / "one.py").write_text("result = 1\n")
    (file.parent / "lib" / "two.py").write_text("result = wrong +\n")
    assert "code from lib/one.py (sha256 " in bare.noetl("compile", str(file)).stdout
    graph = json.loads(bare.noetl("compile", str(file), "--format", "json").stdout)
    assert graph["steps"]["start"]["tasks"][0]["config"]["data"]["script"]["code"] == "result = 1\n"
    done = bare.noetl("compile", str(file), "--set", "script=lib/two.py")
    assert done.returncode == 1
    assert f"{file.parent}/lib/two.py:1:16: error[NT507]: syntax error in Python code" in done.stderr
    assert "1 | result = wrong +\n" in done.stderr
    missing = bare.noetl("compile", str(file), "--set", "script=lib/three.py")
    assert missing.returncode == 0
    assert "there is no file" in missing.stderr
