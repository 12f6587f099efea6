"""The same text gives the same bytes, whatever the process's hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
SCRIPT = """
import sys
from pathlib import Path
from noetl_compiler import compile_text
from noetl_compiler.diagnostics import one_line
from noetl_compiler.graph import encode
for path in sorted(Path(sys.argv[1]).rglob("*.yaml")):
    result = compile_text(path.read_text(errors="replace"), path.name)
    print([one_line(found) + found.hint for found in result.diagnostics])
    print(encode(result.graph).decode() if result.graph else None)
"""


def output(seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SCRIPT, str(CORPUS)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_two_hash_seeds_give_the_same_bytes() -> None:
    first = output("1")
    assert '"digest"' in first
    assert first == output("2")
