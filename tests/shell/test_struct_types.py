"""Structs are worked out before threads decode them (noetl_temporal/payloads/struct_types.py)."""

from __future__ import annotations

import subprocess
import sys

RACE = """
import sys, threading
import msgspec
from noetl_temporal.payloads.struct_types import prepare_structs

sys.setswitchinterval(1e-6)
names = {"__name__": "noetl_temporal.made_here", "msgspec": msgspec}
sys.modules["noetl_temporal.made_here"] = type(sys)("noetl_temporal.made_here")
sys.modules["noetl_temporal.made_here"].__dict__.update(names)
space = sys.modules["noetl_temporal.made_here"].__dict__
for n in range(200):
    exec(f'''
class Inner{n}(msgspec.Struct):
    x: int
class Outer{n}(msgspec.Struct):
    a: Inner{n}
    b: "list[Inner{n}]" = []
    c: "Inner{n} | None" = None
    d: "dict[str, Inner{n}]" = {{}}
''', space)
prepare_structs()
text = b'{"a":{"x":1},"b":[{"x":2}],"c":{"x":3},"d":{"k":{"x":1}}}'
for n in range(200):
    ready = threading.Barrier(4)
    def decode(kind=space[f"Outer{n}"]):
        ready.wait()
        msgspec.json.decode(text, type=kind)
    threads = [threading.Thread(target=decode) for _ in range(4)]
    for one in threads: one.start()
    for one in threads: one.join()
print("alive")
"""


def test_threads_may_decode_a_struct_for_the_first_time_concurrently() -> None:
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")


def test_structs_that_cannot_be_decoded_do_not_matter() -> None:
    script = "import noetl_temporal.worker, noetl_temporal.mirror.service, noetl_compiler.phases\n"
    script += "from noetl_temporal.payloads.struct_types import prepare_structs\nprepare_structs()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
