"""What a program gets that imports the compiler."""

from __future__ import annotations

import subprocess
import sys

import noetl_compiler

PROGRAM = """
import sys
from noetl_compiler import Diagnostic, Graph, compile_file, compile_text
heavy = {"jinja2", "yaml", "temporalio", "asyncio", "pydantic"} & set(sys.modules)
print(sorted(heavy))
"""


def test_importing_it_loads_nothing_heavy() -> None:
    """Templates and YAML are needed to compile, not to import; Temporal never."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_it_promises_is_there() -> None:
    for name in noetl_compiler.__all__:
        exported = getattr(noetl_compiler, name)
        assert exported.__name__ == name
        assert exported.__doc__
