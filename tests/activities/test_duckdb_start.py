"""What a DuckDB process imports is most of what its start costs."""

from __future__ import annotations

import json
import subprocess
import sys

SLOW = {"asyncio", "asyncpg", "dataclasses", "duckdb", "httpx", "importlib.metadata", "sqlglot", "traceback"}

LOADED_MODULES = "import json, sys, noetl_activities.duckdb.child; print(json.dumps(list(sys.modules)))"

RENAMED_PROGRAM = """
import sys, types
sys.modules["_duckdb"] = None  # an import fails
sys.modules["duckdb"] = types.ModuleType("duckdb")
from noetl_activities.duckdb.driver import duckdb
print(duckdb is sys.modules["duckdb"])
"""

QUERY_PROGRAM = """
import sys
from noetl_activities.duckdb.driver import duckdb
found = duckdb.connect(":memory:").execute("select ?, ?, ?, date 'infinity'", [1, [2], {"a": 3}]).fetchone()
print(found[:3], "duckdb" in sys.modules)
"""


def output_of(program: str) -> str:
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_it_loads_nothing_that_is_slow_and_not_needed() -> None:
    assert SLOW & set(json.loads(output_of(LOADED_MODULES))) == set()


def test_a_call_loads_no_more_of_duckdb() -> None:
    assert output_of(QUERY_PROGRAM) == "(1, [2], {'a': 3}) False"


def test_a_duckdb_whose_extension_module_has_another_name_is_used() -> None:
    assert output_of(RENAMED_PROGRAM) == "True"
