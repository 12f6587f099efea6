"""A Postgres server that lies about types and values ends no worker, and is reported with a message."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from dev.attack.database_server import deep_types
from dev.attack.postgres_server import STATEMENT, Script, row, serving_postgres
from noetl_activities.errors import ConfigError
from noetl_activities.outcome import Outcome
from noetl_activities.postgres.tool import TOOL
from noetl_activities.postgres.types import MAX_NESTED_TYPES, TypeDepths

from .conftest import Context, request

CALL_PROGRAM = """
import asyncio, json, resource, sys
from dev.attack.database_server import deep_types
from dev.attack.postgres_server import STATEMENT, serving_postgres
from dev.attack.tool_calls import call
from noetl_activities.postgres import types as postgres_types
from noetl_activities.errors import ConfigError
from noetl_activities.postgres.tool import TOOL
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))
if sys.argv[2] == "unguarded":
    postgres_types.TypeDepths.is_exceeded = lambda *_: False

async def main():
    async with serving_postgres(deep_types(int(sys.argv[1]))) as port:
        login = {"type": "postgres", "db_host": "127.0.0.1", "db_port": port, "db_user": "u", "db_password": "x"}
        return await call(TOOL, {"query": STATEMENT}, credentials={"pg": login})

try:
    asyncio.run(main())
except ConfigError as error:
    print(error)
"""


async def outcome_of_script(script: Script) -> Outcome:
    async with serving_postgres(script) as port:
        call = request("postgres", query=STATEMENT, db_host="127.0.0.1", db_port=port, db_user="u")
        return await TOOL.run(call, Context())


@pytest.mark.skipif(sys.platform != "linux", reason="the stack of a process has another size there")
@pytest.mark.parametrize(
    ("guard", "message", "status"),
    [("guarded", f"over {MAX_NESTED_TYPES:,} nested types", 0), ("unguarded", "", -signal.SIGSEGV)],
)
async def test_deeply_nested_types_do_not_crash_the_worker(guard: str, message: str, status: int) -> None:
    """The control: without the guard the driver ends the process."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CALL_PROGRAM, "40000", guard, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(child.communicate(), 60)
    assert message in output.decode()
    assert child.returncode == status


async def test_moderately_nested_types_are_read() -> None:
    outcome = await outcome_of_script(deep_types(5))
    assert outcome.result["rows"] == [{"a": [[[[[0]]]]]}]


def test_the_depth_of_a_type_adds_up_over_descriptions() -> None:
    type_row = {"oid": 1, "basetype": None, "elemtype": None, "range_subtype": None, "attrtypoids": [1]}
    depths = TypeDepths()
    assert not depths.is_exceeded([type_row] * MAX_NESTED_TYPES)
    assert depths.is_exceeded([type_row])


@pytest.mark.parametrize("oid", [114, 3802])
async def test_a_json_integer_that_is_too_long_is_reported(oid: int) -> None:
    value = b'{"n": ' + b"9" * 4301 + b"}"
    with pytest.raises(ConfigError, match="an integer of over 4,300 digits: select it as text"):
        await outcome_of_script(Script(columns=(("a", oid),), rows=[row(value)]))


async def test_invalid_json_is_reported() -> None:
    with pytest.raises(ConfigError, match="a json value of the result is not valid JSON"):
        await outcome_of_script(Script(columns=(("a", 114),), rows=[row(b"{a")]))


async def test_a_value_that_does_not_match_its_type_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"the server's response cannot be parsed \(UnicodeDecodeError\)"):
        await outcome_of_script(Script(columns=(("a", 25),), rows=[row(b"\xff\xfe")]))
