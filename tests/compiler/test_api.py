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


def test_importing_the_compiler_loads_no_large_modules() -> None:
    """Templates and YAML are needed to compile, not to import; Temporal never."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_exported_names_exist_and_have_docstrings() -> None:
    for name in noetl_compiler.__all__:
        exported_object = getattr(noetl_compiler, name)
        assert exported_object.__name__ == name
        assert exported_object.__doc__
