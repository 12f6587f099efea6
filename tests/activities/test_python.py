"""The python tool: a real process each time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from noetl_activities.errors import ConfigError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.python import tool as python
from noetl_activities.python.tool import TOOL

from .conftest import Context, request


async def run(code: str, **inputs: Any) -> Outcome:
    return await TOOL.run(request("python", code=code, input=inputs), Context())


@pytest.mark.parametrize(
    ("code", "inputs", "expected"),
    [
        ("result = {'a': x + 1}", {"x": 1}, {"a": 2}),
        ("def main(a, b=2):\n    return a + b", {"a": 5, "unused": 1}, 7),
        ("def main(**all):\n    return sorted(all)", {"b": 1, "a": 2}, ["a", "b"]),
        ("def main(input_data):\n    return input_data['k']", {"k": 3}, 3),
        ("def main(input_data):\n    return input_data['k']", {"input_data": {"k": 4}}, 4),
        ("def main(context):\n    return context['execution_id']", {}, "42"),
        ("async def main(a):\n    return a", {"a": 1}, 1),
        ("if x:\n    return {'early': x}\nreturn 2", {"x": 3}, {"early": 3}),
        ("x = int(x)\nreturn x + 1", {"x": "3"}, 4),
        ("def double():\n    return 2 * x\nx += 1\nreturn double()", {"x": 3}, 8),
        ("from __future__ import annotations\nreturn 5", {}, 5),
        ("import urllib.request, duckdb\nresult = duckdb.sql('select 1').fetchall()", {}, [[1]]),
        ("import os\nif os.fork() == 0:\n    x = 2\nresult = 1", {}, 1),
        ("import datetime\nresult = datetime.date(2026, 1, 2)", {}, "2026-01-02"),
        ("from decimal import Decimal\nresult = [Decimal('1.5'), {3, 1}, (1,)]", {}, [1.5, [1, 3], [1]]),
        ("result = [b'ab', bytearray(b'ab'), datetime.timedelta(hours=1)]", {}, ["YWI=", "YWI=", "1:00:00"]),
        ("import enum, pathlib\nresult = {enum.Enum('E', 'A')(1): pathlib.Path('a/b')}", {}, {"E.A": "a/b"}),
        ("d = {'b': 1, 'a': 2}\nresult = [d.keys(), d.values(), range(2)]", {}, [["b", "a"], [1, 2], [0, 1]]),
        ("result = make_serializable({'a': object})", {}, {"a": "<class 'object'>"}),
        ("result = get_val({'a': {'b': 1}}, 'a.b')", {}, 1),
        ("result = uuid.UUID(int=1)", {}, "00000000-0000-0000-0000-000000000001"),
        ("result = uuid", {"uuid": 5}, 5),
        ("x = 1", {}, None),
    ],
)
async def test_the_three_forms_of_code(code: str, inputs: dict[str, Any], expected: Any) -> None:
    outcome = await run(code, **inputs)
    assert outcome.error is None
    assert outcome.result == expected


@pytest.mark.parametrize(
    ("code", "type_", "line"),
    [
        ("x = 1\ny = x / 0", "ZeroDivisionError", 2),
        ("def main():\n    assert False, 'bad'", "AssertionError", 2),
        ("def f(:\n  pass", "SyntaxError", 1),
        ("import no_such_module", "ModuleNotFoundError", 1),
        ("x = 1\nreturn nothing_there", "NameError", 2),
    ],
)
async def test_an_exception_is_reported_with_the_line_of_the_code(code: str, type_: str, line: int) -> None:
    outcome = await run(code)
    assert outcome.error is not None
    assert outcome.py is not None
    assert (outcome.error.kind, outcome.error.code) == ("exception", type_)
    assert f"line {line}" in outcome.error.message
    assert (outcome.py or {})["line"] == line
    assert "python/child" not in outcome.py["traceback"]


async def log_of(code: str) -> list[str]:
    """The lines that the log has of a failed call."""
    context = Context()
    outcome = await TOOL.run(request("python", code=code), context)
    text = "".join(text for stream, text in context.output_lines if stream == "stderr")
    assert outcome.py is not None
    assert outcome.py["traceback"] == text
    return text.splitlines()


CHAINED_ERRORS = """
def read(text):
    return int(text)
try:
    read('x')
except ValueError as error:
    raise RuntimeError('no number') from error
"""


async def test_the_log_has_the_traceback_with_the_cause_of_an_exception() -> None:
    lines = [line for line in await log_of(CHAINED_ERRORS) if "^" not in line]
    assert lines == [
        "Traceback (most recent call last):",
        '  File "<python task>", line 5, in <module>',
        "    read('x')",
        '  File "<python task>", line 3, in read',
        "    return int(text)",
        "ValueError: invalid literal for int() with base 10: 'x'",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "<python task>", line 7, in <module>',
        "    raise RuntimeError('no number') from error",
        "RuntimeError: no number",
    ]


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("import json\njson.loads('{')", ["line 2, in <module>", "decoder.py", "JSONDecodeError: "]),
        ("raise ExceptionGroup('both', [ValueError('a'), KeyError('b')])", ["both", "ValueError: a", "KeyError: 'b'"]),
        ("async def main():\n    return 1 / 0", ["line 2, in main", "return 1 / 0", "ZeroDivisionError: "]),
        ("result = object()", ['"result" is of type object']),
        ("def f(:\n  pass", ["line 1", "def f(:", "SyntaxError: "]),
    ],
)
async def test_a_traceback_begins_in_the_code_and_continues_into_libraries(code: str, parts: list[str]) -> None:
    lines = await log_of(code)
    text = "\n".join(lines)
    assert "python/child" not in text
    assert [part for part in parts if part not in text] == []


async def test_the_traceback_of_a_deep_recursion_is_short() -> None:
    assert len(await log_of("def f(n): return f(n + 1)\nf(0)")) < 30


async def test_a_report_that_the_code_forges_logs_no_traceback() -> None:
    context = Context()
    answer = b'{"ok": true, "result": 1, "traceback": 5}'
    forged_program = f"import os, sys\nos.write(int(sys.argv[1]), {answer!r})\nos._exit(0)"
    assert (await TOOL.run(request("python", code=forged_program), context)).result == 1
    assert context.output_lines == []


WRITES_NO_JSON = """
from noetl.worker.vars_cache import VarsCache
async def main(): await VarsCache.set_cached('at', print, execution_id=42)
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("result = object()", '"result" is of type object'),
        ("class Row: pass\nresult = {'rows': [1, {'when': Row()}]}", '"result.rows[1].when" is of type Row'),
        ("def main(): return {'all': (x for x in [1])}", '"result.all" is of type generator'),
        ("import fractions\nresult = [fractions.Fraction]", '"result[0]" is of type abc.ABCMeta'),
        ("result = {object(): 1}", "is of type object"),
        (WRITES_NO_JSON, '"ctx.at" is of type builtin_function_or_method'),
    ],
)
async def test_a_result_that_is_not_a_json_value_is_an_error_with_its_path_and_type(code: str, expected: str) -> None:
    outcome = await run(code)
    assert outcome.error is not None
    assert (outcome.status, outcome.error.kind, outcome.error.code) == ("error", "exception", "TypeError")
    assert expected in outcome.error.message
    assert "not a JSON value: return its text" in outcome.error.message


WRAPPED_FUNCTION = (
    "import functools\ndef plain(a, b=2): ...\n@functools.wraps(plain)\ndef main(*args, **named): return named"
)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def main(a, /, b, *, c=3, d=4, **rest):\n    return [a, b, c, d, rest]", [1, 2, 3, 5, {"a": 1, "e": 6}]),
        ("def main(a, b, *args, d):\n    local = 7\n    return [a, b, len(args), d]", [1, 2, 0, 5]),
        ("class main:\n    def __new__(cls, a, x=9): return [a, x]", [1, 9]),
        (WRAPPED_FUNCTION, {"a": 1, "b": 2}),
    ],
)
async def test_the_arguments_of_main(code: str, expected: Any) -> None:
    outcome = await run(code, a=1, b=2, d=5, e=6)
    assert outcome.error is None
    assert outcome.result == expected


@pytest.mark.parametrize(
    ("parameters", "expected"), [("all_of_it", "42"), ("all_of_it, more=1", "42"), ("more=1", None)]
)
async def test_a_single_parameter_that_nothing_is_given_for_is_the_context(parameters: str, expected: Any) -> None:
    context = "locals().get('all_of_it', {}).get('execution_id')"
    assert (await run(f"def main({parameters}):\n    return {context}")).result == expected


@pytest.mark.parametrize("form", ["result = {}", "def main(): return {}", "async def main(a=1): return {} if a else 0"])
async def test_the_process_imports_only_what_every_call_needs(form: str) -> None:
    loaded_modules = (
        "sorted({'ast', 'inspect', 'typing', 'importlib', 'socket', 'traceback', 'pathlib'} & set(sys.modules))"
    )
    outcome = await run(f"import sys\nfound = {loaded_modules}\n{form.format('found')}")
    assert outcome.result == []


async def test_output_and_result_of_the_code_are_separate() -> None:
    outcome = await run("print('{\"ok\": true}')\nresult = 1")
    assert (outcome.result, outcome.meta["stdout"]) == (1, '{"ok": true}\n')


async def test_endless_printing_is_drained_and_bounded() -> None:
    outcome = await run("print('x' * 5_000_000)\nresult = 1")
    assert (outcome.result, len(outcome.meta["stdout"])) == (1, 64 * 1024)


@pytest.mark.parametrize(
    "code", ["result = 1\nfor _ in range(900):\n    result = [result]", "result = []\nresult.append(result)"]
)
async def test_a_result_nested_too_deeply_is_not_an_error_of_the_code(code: str) -> None:
    outcome = await run(f"print('here')\n{code}")
    assert outcome.error == ErrorInfo("too_large", "the result has more than 200 levels of nested lists and mappings")
    assert outcome.meta["stdout"] == "here\n"


async def test_an_endless_recursion_is_an_error_of_the_code() -> None:
    outcome = await run("def f():\n    f()\nf()")
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code) == ("exception", "RecursionError")


async def test_a_process_that_dies_is_an_error() -> None:
    outcome = await run("import os\nprint('almost')\nos._exit(9)")
    assert outcome.error is not None
    assert "status 9" in outcome.error.message


async def test_nothing_secret_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_CREDENTIAL_PG", "hidden")
    result = (await run("result = sorted(os.environ)")).result
    assert "NOETL_CREDENTIAL_PG" not in result
    assert "PATH" in result


async def test_it_works_in_a_folder_of_its_own_that_is_gone_afterwards() -> None:
    outcome = await run("os.makedirs('a/b')\nopen('a/b/c', 'w').close()\nresult = os.getcwd()")
    assert not exists(outcome.result)


async def test_its_environment_is_the_playbooks() -> None:
    code = "import subprocess\nresult = subprocess.check_output('echo $NAME', shell=True, text=True)"
    assert (await TOOL.run(request("python", code=code, env={"NAME": 5}), Context())).result == "5\n"


@pytest.mark.parametrize("text", ["no JSON", "1", '{"ok": true}', '{"ok": false}', "[" * 100_000])
async def test_invalid_output_of_the_code_is_an_error(text: str) -> None:
    outcome = await run("import sys\nos.write(int(sys.argv[1]), text.encode())\nos._exit(0)", text=text)
    assert outcome.error is not None
    assert outcome.error.message == "the output of the process is not a result"


@pytest.mark.parametrize(
    "piece", ["[],", "{},", "1,", '"a",', "[[[]]],"], ids=["lists", "maps", "numbers", "texts", "nested lists"]
)
async def test_a_report_of_too_many_values_is_not_parsed(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 MB of empty lists took 1.2 GB of the worker, and all of its time for seconds."""
    monkeypatch.setattr(python, "MAX_VALUES", 1000)
    code = "import sys\nos.write(int(sys.argv[1]), text.encode())\nos._exit(0)"
    with pytest.raises(ConfigError, match="the result has over 1,000 values"):
        await run(code, text='{"ok": true, "result": [' + piece * 1000 + "1]}")
    assert (await run(code, text='{"ok": true, "result": [' + piece * 200 + "1]}")).error is None


@pytest.mark.parametrize("wrong", [{"ok": 0}, {"type": {"a": 1}}, {"message": ["m"]}, {"traceback": 5}])
async def test_a_report_with_a_field_of_another_type_is_an_error(wrong: dict[str, Any]) -> None:
    answer = {"ok": False, "type": "T", "message": "m", "traceback": "t", **wrong}
    code = "import sys\nos.write(int(sys.argv[1]), json.dumps(answer).encode())\nos._exit(0)"
    outcome = await run(code, answer=answer)
    assert outcome.error is not None
    assert outcome.error.message == "the output of the process is not a result"
    assert outcome.py == {"exception": None, "traceback": None}


@pytest.mark.parametrize("escapes", [False, True])
async def test_processes_left_behind_end_with_the_call(escapes: bool) -> None:
    """A process that it started holds the pipes on; one in a session of its own is in no group of the task."""
    code = (
        "import subprocess, sys\n"
        f"left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session={escapes})\n"
        "print('started')\nresult = left.pid"
    )
    outcome = await asyncio.wait_for(run(code), 30)
    assert outcome.meta["stdout"] == "started\n"
    if escapes and sys.platform != "linux":
        os.kill(outcome.result, signal.SIGKILL)
    async with asyncio.timeout(30):
        while is_running(outcome.result):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("libs", "expected", "meta"),
    [
        ({"m": "math"}, 4, {}),
        ({"m": {"from": "math"}}, 4, {}),
        ({"m": {"from": "os", "import": "path"}}, "here", {}),
        (["requests"], None, {"libs_not_installed_here": ["requests"]}),
    ],
)
async def test_libs_are_modules_by_alias(libs: Any, expected: Any, meta: dict[str, Any]) -> None:
    code = "result = None if 'm' not in globals() else m.isqrt(16) if hasattr(m, 'isqrt') else m.basename('/is/here')"
    outcome = await TOOL.run(request("python", code=code, libs=libs), Context())
    assert (outcome.result, outcome.meta) == (expected, meta)


async def test_a_missing_lib_is_reported() -> None:
    outcome = await TOOL.run(request("python", code="result = 1", libs={"m": "no_such_module"}), Context())
    assert outcome.error is not None
    assert outcome.error.code == "ModuleNotFoundError"


async def test_cancellation_kills_it_and_what_it_started(task_folder: Path) -> None:
    pids = task_folder / "pid"
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{child.pid}}\\n')\n"
        "time.sleep(60)"
    )
    running = asyncio.create_task(run(code))
    async with asyncio.timeout(30):
        while not read_finished_text(pids):
            await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        while is_running(int(read_finished_text(pids))):
            await asyncio.sleep(0.02)


def read_finished_text(file: Path) -> str:
    text = file.read_text() if file.exists() else ""
    return text if text.endswith("\n") else ""


def exists(path: str) -> bool:
    return Path(path).exists()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


async def test_a_task_without_code_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs code"):
        await TOOL.run(request("python"), Context())


async def test_code_may_come_in_base64() -> None:
    assert (await TOOL.run(request("python", code_b64="cmVzdWx0ID0gMQ=="), Context())).result == 1
