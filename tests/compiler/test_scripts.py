"""Code in other files: found beside the playbook, pinned in the graph, checked in its own file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from noetl_compiler import Result, compile_file
from noetl_compiler.diagnostics import Severity, one_line
from noetl_compiler.graph import Task, decode, encode
from noetl_compiler.guarantees import call_guarantee
from noetl_compiler.language.scripts import MAX_BYTES
from noetl_compiler.phases import compile_parsed, parse_playbook
from noetl_compiler.playbook_set import parse_file
from noetl_compiler.preview.calls import summarise_call
from noetl_compiler.script_requests import Download
from noetl_compiler.scripts import Fetch, ScriptError, with_scripts
from noetl_compiler.source import SourceFile
from tests.compiler.marked import HEAD

URL = "https://user:secret@example.com/a.py?token=secret"


def playbook(folder: Path, script: str, kind: str = "python", head: str = "", more: str = "") -> Path:
    file = folder / "p.yaml"
    task = f"  - step: start\n    tool: {{kind: {kind}, {more}script: {script}}}\n"
    file.write_text(f"{HEAD}{head}workflow:\n{task}")
    return file


def script(folder: Path, text: str, name: str = "a.py") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def pin_script(
    file: Path, request: Mapping[str, Any] | None = None, fetch: Fetch | None = None, *, missing_is_error: bool = True
) -> Result:
    return compile_parsed(with_scripts(parse_file(file), request or {}, fetch=fetch, missing_is_error=missing_is_error))


def findings_of(result: Result) -> list[str]:
    return [one_line(diagnostic).partition(": ")[2] for diagnostic in result.diagnostics]


def task_of(result: Result) -> Task:
    assert result.graph is not None, findings_of(result)
    return result.graph.steps["start"].tasks[0]


def script_of(result: Result) -> dict[str, Any]:
    config: Any = task_of(result).config
    assert not [place for place in config.templates if place.startswith("/script")]
    return dict(config.data["script"])


CODE = "def main():\n    return '{{ not_a_template }}'\n"


@pytest.mark.parametrize("path", ["a.py", "./a.py", "lib/a.py", "./lib/./a.py"])
def test_a_file_is_pinned_with_its_digest(tmp_path: Path, path: str) -> None:
    script(tmp_path, CODE, path)
    result = pin_script(playbook(tmp_path, f"{{uri: {path}, source: {{type: file}}}}"))
    found = script_of(result)
    assert found["code"] == CODE
    assert found["sha256"] == hashlib.sha256(CODE.encode()).hexdigest()
    assert found["uri"] == path.replace("./", "")
    assert findings_of(result) == []
    assert result.graph is not None
    assert decode(encode(result.graph)) == result.graph


def test_another_text_is_another_graph(tmp_path: Path) -> None:
    file = playbook(tmp_path, "{uri: a.py, source: {type: file}}")
    script(tmp_path, "result = 1")
    first = pin_script(file).graph
    assert first == pin_script(file).graph
    script(tmp_path, "result = 2")
    second = pin_script(file).graph
    assert first is not None
    assert second is not None
    assert first.digest != second.digest


def test_the_address_may_come_from_the_request_and_the_workload(tmp_path: Path) -> None:
    file = playbook(tmp_path, '{uri: "{{ workload.folder }}/{{ name }}.py"}', head="workload: {folder: lib, name: a}\n")
    script(tmp_path, "result = 'a'", "lib/a.py")
    script(tmp_path, "result = 'b'", "lib/b.py")
    assert script_of(pin_script(file))["code"] == "result = 'a'"
    assert script_of(pin_script(file, {"name": "b"}))["code"] == "result = 'b'"


def test_tasks_of_the_workbook_have_scripts_too(tmp_path: Path) -> None:
    script(tmp_path, "result = 5")
    file = tmp_path / "p.yaml"
    book = "workbook: [{name: five, tool: {kind: python, script: {uri: a.py}}}]\n"
    file.write_text(f"{HEAD}{book}workflow:\n  - step: start\n    tool: {{kind: workbook, name: five}}\n")
    assert script_of(pin_script(file))["code"] == "result = 5"


V1 = "name: x\npath: x\nworkflow:\n  - step: start\n    type: python\n    script: {uri: a.py, source: {type: file}}\n"
LEGACY = V1.replace("type: python", "tool: python").replace("name: x\npath: x", "metadata: {name: x, path: x}")
CASE = (
    "metadata: {name: x}\nworkflow:\n  - step: start\n    tool: {kind: python, script: {uri: a.py}}\n"
    "    case: [{when: \"{{ event.name == 'step.exit' }}\", then: {next: [{step: end}]}}]\n  - {step: end}\n"
)


@pytest.mark.parametrize("text", [V1, LEGACY, CASE])
def test_every_dialect_has_scripts(tmp_path: Path, text: str) -> None:
    script(tmp_path, "result = 5")
    (tmp_path / "p.yaml").write_text(f"apiVersion: noetl.io/v2\nkind: Playbook\n{text}")
    assert script_of(pin_script(tmp_path / "p.yaml"))["code"] == "result = 5"


# ---- what is found in a script -------------------------------------------------------------------------------------


def test_findings_in_python_have_their_place_in_the_script(tmp_path: Path) -> None:
    script(tmp_path, "def main(n):\n    return n + m\n")
    result = pin_script(playbook(tmp_path, "{uri: a.py}", more="input: {n: 1}, "))
    [diagnostic] = result.diagnostics
    assert (diagnostic.file, diagnostic.span.line, diagnostic.span.col) == (str(tmp_path / "a.py"), 2, 16)
    assert diagnostic.message == '"m" is not defined in this code'
    assert result.source_of(diagnostic).line(2) == "    return n + m"


def test_code_that_is_not_python_is_an_error(tmp_path: Path) -> None:
    script(tmp_path, "def main(:\n    pass\n")
    result = pin_script(playbook(tmp_path, "{uri: a.py}"), missing_is_error=False)
    assert result.graph is None
    [diagnostic] = result.diagnostics
    assert (diagnostic.file, diagnostic.span.line, diagnostic.severity) == (str(tmp_path / "a.py"), 1, Severity.ERROR)


def test_findings_in_sql_have_their_place_in_the_script(tmp_path: Path) -> None:
    script(tmp_path, "SELECT 1;\nSELECT 'open\n", "a.sql")
    [diagnostic] = pin_script(playbook(tmp_path, "{uri: a.sql}", "duckdb")).diagnostics
    assert (diagnostic.file, diagnostic.message) == (str(tmp_path / "a.sql"), "a quote or comment in SQL is not closed")


def test_braces_in_a_sql_script_are_reported_as_no_template(tmp_path: Path) -> None:
    script(tmp_path, "SELECT 1;\nSELECT {{ n }}\n", "a.sql")
    [diagnostic] = pin_script(playbook(tmp_path, "{uri: a.sql}", "duckdb")).diagnostics
    assert (diagnostic.file, diagnostic.span.line, diagnostic.span.col) == (str(tmp_path / "a.sql"), 2, 8)
    assert "is not rendered" in diagnostic.message


# ---- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("b.py", 'there is no file "b.py" in the folder of the playbook'),
        ("/etc/hostname", '"/etc/hostname" is not a path below the folder of the playbook'),
        ("../a.py", '"../a.py" is not a path below the folder of the playbook'),
        ("lib/../../a.py", '"lib/../../a.py" is not a path below the folder of the playbook'),
        ("file:///etc/hostname", '"file:///etc/hostname" is not a path below the folder of the playbook'),
        ("link.py", '"link.py" is a link'),
        ("linked/secret.py", '"linked" is a link'),
        ("lib", 'cannot read "lib": is a directory'),
        ("pipe", "it is a pipe, not a file"),
        ("a.py/b.py", "not a directory"),
        ("large.py", f'"large.py" is longer than {MAX_BYTES:,} bytes'),
        ("bytes.py", '"bytes.py" is not UTF-8 text: byte 0xFF at 3'),
    ],
)
def test_a_file_outside_the_folder_of_the_playbook_is_refused(tmp_path: Path, address: str, why: str) -> None:
    folder, outside = tmp_path / "in", tmp_path / "out"
    script(folder, "result = 1")
    script(folder, "result = 1", "lib/a.py")
    script(outside, "result = 1", "secret.py")
    (folder / "link.py").symlink_to(outside / "secret.py")
    (folder / "linked").symlink_to(outside)
    os.mkfifo(folder / "pipe")
    (folder / "large.py").write_text("#" * (MAX_BYTES + 1))
    (folder / "bytes.py").write_bytes(b"a =\xff")
    file = playbook(folder, f'{{uri: "{address}", source: {{type: file}}}}')
    result = pin_script(file)
    assert result.graph is None
    assert why in findings_of(result)[0]
    warned = pin_script(file, missing_is_error=False)
    assert [diagnostic.severity for diagnostic in warned.diagnostics] == [Severity.WARNING]
    assert "but a run is refused" in findings_of(warned)[0]


@pytest.mark.parametrize("start", ["", "./"])
def test_a_path_from_the_folder_of_the_project_leads_into_that_of_the_playbook(tmp_path: Path, start: str) -> None:
    folder = tmp_path / "playbooks" / "x"
    script(folder, "result = 1", "scripts/a.py")
    file = playbook(folder, f"{{uri: {start}playbooks/x/scripts/a.py}}")
    assert script_of(pin_script(file))["uri"] == "scripts/a.py"
    script(folder, "result = 2", "playbooks/x/scripts/a.py")
    assert script_of(pin_script(file))["code"] == "result = 2"


def test_a_path_from_another_folder_is_only_proposed(tmp_path: Path) -> None:
    script(tmp_path, "result = 1", "scripts/a.py")
    [diagnostic] = pin_script(playbook(tmp_path, "{uri: ./playbooks/x/scripts/a.py}")).diagnostics
    assert diagnostic.hint == 'did you mean "scripts/a.py"?'


def test_a_template_that_needs_a_run_is_refused_at_its_place(tmp_path: Path) -> None:
    result = pin_script(playbook(tmp_path, '{uri: "{{ ctx.later }}.py"}'))
    assert result.graph is None
    assert findings_of(result)[0].startswith("error[NT502]: the address of this script is known only at run time")


def test_a_text_without_a_file_has_no_folder() -> None:
    text = f"{HEAD}workflow:\n  - step: start\n    tool: {{kind: python, script: {{uri: a.py}}}}\n"
    result = compile_parsed(with_scripts(parse_playbook(SourceFile("<stdin>", text)), {}, missing_is_error=True))
    assert result.graph is None
    assert "from the playbook's folder" in findings_of(result)[0]


def test_a_source_that_may_be_null_in_a_run_is_refused(tmp_path: Path) -> None:
    file = playbook(tmp_path, '{uri: a.py, source: {type: "{{ kind }}"}}', head="workload: {kind: ftp}\n")
    assert compile_file(file).graph is not None
    result = pin_script(file)
    assert result.graph is None
    assert '"ftp" is not a source of scripts' in findings_of(result)[0]


# ---- http ----------------------------------------------------------------------------------------------------------

HTTP = f"{{uri: a.py, source: {{type: http, endpoint: '{URL}', headers: {{X-Key: k}}, timeout: 5}}}}"


def test_http_is_fetched_for_a_run_once_and_its_credentials_are_not_pinned(tmp_path: Path) -> None:
    downloads: list[Download] = []

    def fetch(download: Download) -> bytes:
        downloads.append(download)
        return b"result = 1"

    file = playbook(tmp_path, HTTP)
    tool = f"kind: python, script: {HTTP}"
    file.write_text(f"{file.read_text()}    next: [{{step: two}}]\n  - step: two\n    tool: {{{tool}}}\n")
    result = pin_script(file, fetch=fetch)
    assert downloads == [Download(URL, (("X-Key", "k"),), 5.0)]
    assert script_of(result)["code"] == "result = 1"
    assert script_of(result)["uri"] == "https://example.com/a.py"
    assert result.graph is not None
    assert b"secret" not in encode(result.graph)


def test_http_waits_for_the_run(tmp_path: Path) -> None:
    result = pin_script(playbook(tmp_path, HTTP), missing_is_error=False)
    assert findings_of(result) == []
    assert summarise_call(task_of(result)) == "code from https://example.com/a.py (not fetched yet)"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{type: http, endpoint: 'ftp://x/a.py'}", '"ftp://x/a.py" is not an http(s) address'),
        ("{type: http, endpoint: 'https://x/a.py', method: POST}", "a script is fetched by GET, not by POST"),
        ("{type: http, endpoint: 'https://x/a.py', auth: {token: t}}", "is not the name of a credential"),
        ("{type: http, endpoint: 'https://x/a.py', timeout: soon}", "the timeout of a script's source is 'soon'"),
        ("{type: http, endpoint: 'https://x/a.py'}", "no answer"),
    ],
)
def test_an_http_source_that_cannot_be_fetched_is_refused(tmp_path: Path, source: str, why: str) -> None:
    def fetch(_download: Download) -> bytes:
        raise ScriptError("no answer")

    result = pin_script(playbook(tmp_path, f"{{uri: a.py, source: {source}}}"), fetch=fetch)
    assert result.graph is None
    assert why in findings_of(result)[0]


# ---- object stores -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "download"),
    [
        ("{uri: 's3://b/x/a.py', source: {type: s3, auth: c}}", Download("s3://b/x/a.py", auth="c")),
        ("{uri: 'gs://b/a.py', source: {type: gcs, credential: c}}", Download("gs://b/a.py", auth="c")),
        ("{uri: /x/a.py, source: {type: gcs, bucket: b, project: p}}", Download("gs://b/x/a.py")),
        ("{uri: 'gs://b/a.py'}", Download("gs://b/a.py")),
        (
            "{uri: 's3://b/a.py', source: {type: s3, region: r, endpoint: 'http://e', timeout: 5}}",
            Download("s3://b/a.py", (), 5.0, "", "r", "http://e"),
        ),
        (
            "{uri: 's3://b/a.py', source: {type: s3, auth: c, region: '', endpoint: '', timeout: ''}}",
            Download("s3://b/a.py", auth="c"),
        ),
    ],
)
def test_an_object_is_fetched_for_a_run(tmp_path: Path, script: str, download: Download) -> None:
    downloads: list[Download] = []

    def fetch(download: Download) -> bytes:
        downloads.append(download)
        return CODE.encode()

    file = playbook(tmp_path, script)
    assert findings_of(pin_script(file, missing_is_error=False)) == []
    found = script_of(pin_script(file, fetch=fetch))
    assert downloads == [download]
    assert (found["uri"], found["code"]) == (download.url, CODE)
    assert found["sha256"] == hashlib.sha256(CODE.encode()).hexdigest()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("{uri: a.py, source: {type: s3}}", "the source of the script names no bucket"),
        ("{uri: 'gs://b/a.py', source: {type: s3}}", '"gs://b/a.py" is not an address of this source'),
        ("{uri: 'https://b/a.py?k=s', source: {type: gcs}}", '"https://b/a.py" is not an address of this source'),
        (
            "{uri: 's3://b/a.py', source: {type: s3, auth: c, endpoint: 'http://e'}}",
            "a playbook cannot change the server of a credential",
        ),
    ],
)
def test_an_object_that_cannot_be_asked_for_is_refused(tmp_path: Path, script: str, why: str) -> None:
    result = pin_script(playbook(tmp_path, script), fetch=lambda _download: b"")
    assert result.graph is None
    assert why in findings_of(result)[0]


# ---- what others make of it ----------------------------------------------------------------------------------------


def test_previews_and_guarantees_know_the_code(tmp_path: Path) -> None:
    script(tmp_path, "select 1 from t", "a.sql")
    task = task_of(pin_script(playbook(tmp_path, "{uri: a.sql}", "duckdb")))
    assert summarise_call(task).startswith("code from a.sql (sha256 ")
    assert str(call_guarantee(task)) == "at least once: it only reads, so repeating it does no harm"
