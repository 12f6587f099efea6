"""Compares compiling with the libraries below it doing only their part.

    python dev/bench/compile.py [--rounds 8] [--steps 1000 5000 20000]

A playbook of n steps has three templates a step, all of them distinct. It is compiled, and beside that PyYAML's C
``compose`` reads the same text and Jinja's ``parse`` the same templates. The other rows: the command as a process
against a Python that does nothing, a cached predicate against Jinja's cached rendering of the same source, and the
import. Both sides of a row alternate in one run; the least of each and the ratio are printed. ``a step`` says whether
time grows linearly.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jinja2
import yaml

from noetl_compiler import compile_text
from noetl_compiler.templates import predicate

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: bench, path: bench/compile}
workload: {base: "http://localhost", %s: 10}
workflow:
"""
LEAN = """\
  - step: s%d
    tool:
      kind: http
      url: "%s"
      params: {page: "%s"}
    next:
      arcs:
        - step: s%d
          when: "%s"
"""
RICH = """\
  - step: s%d
    desc: One of many steps
    tool:
      - fetch:
          kind: http
          method: GET
          url: "%s"
          headers:
            Accept: application/json
          params:
            page: "%s"
            size: 100
          timeout: 30
          spec:
            policy:
              rules:
                - when: "{{ output.status == 'error' }}"
                  then: {do: retry, attempts: 3, backoff: exponential, delay: 1}
                - else:
                    then: {do: continue}
    next:
      spec:
        mode: exclusive
      arcs:
        - step: s%d
          when: "%s"
"""
SCOPE = {"workload": {"limit": 10, "names": ["a", "b"]}, "status": "ok"}
CONDITIONS = ("workload.limit > 5 and status == 'ok'", "status", "workload.names | length == 2")
PREDICATES = 20_000


def templates(index: int, salt: str) -> tuple[str, str, str]:
    return (
        f"{{{{ workload.base }}}}/{salt}/{index}",
        f"{{{{ s{index - 1}.{salt} }}}}" if index else f"{{{{ workload.{salt} }}}}",
        f"{{{{ workload.{salt} > {index} }}}}",
    )


def playbook(step: str, count: int, salt: str = "limit") -> str:
    parts = [HEAD % salt]
    for index in range(count):
        url, page, when = templates(index, salt)
        parts.append(step % (index, url, page, index + 1, when))
    return f"{''.join(parts)}  - step: s{count}\n"


def timed(work: Callable[[], object]) -> float:
    """Return the seconds of processor time."""
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def pairs(rounds: int, ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[float, float]:
    """Return the minimum of each; the sides alternate, so that other load affects both."""
    timings = [(ours(), theirs()) for _ in range(rounds)]
    return min(our_time for our_time, _ in timings), min(their_time for _, their_time in timings)


def compilation(step: str, count: int, rounds: int) -> tuple[float, float]:
    """Measure a compilation, and PyYAML and Jinja, of a new text."""
    environment = jinja2.Environment()
    salts = (f"x{index}" for index in itertools.count())

    def ours() -> float:
        text = playbook(step, count, next(salts))
        return timed(lambda: check_compiles(text))

    def theirs() -> float:
        salt = next(salts)
        text = playbook(step, count, salt)
        sources = {source for index in range(count) for source in templates(index, salt)}
        return timed(
            lambda: (yaml.compose(text, Loader=yaml.CSafeLoader), [environment.parse(text) for text in sources])
        )

    return pairs(rounds, ours, theirs)


def check_compiles(text: str) -> None:
    result = compile_text(text)
    if result.graph is None:
        raise SystemExit(f"the bench's own playbook does not compile: {result.diagnostics[0]}")


def condition(expression: str, rounds: int) -> tuple[float, float]:
    """Measure a predicate as the machine evaluates it, and its rendering by Jinja."""
    source = f"{{{{ {expression} }}}}"
    template = jinja2.Environment().from_string(source)
    predicate(source, SCOPE)

    def ours() -> None:
        for _ in range(PREDICATES):
            predicate(source, SCOPE)

    def theirs() -> None:
        for _ in range(PREDICATES):
            template.render(SCOPE)

    return pairs(rounds, lambda: timed(ours), lambda: timed(theirs))


def process(folder: str, *arguments: str) -> float:
    """Measure seconds of wall time as of an installed program, with its bytecode in the folder."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment)
    return time.perf_counter() - start


def processes(*arguments: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        process(folder, *arguments)
        return pairs(7, lambda: process(folder, *arguments), lambda: process(folder, "-c", "pass"))


def row(name: str, ours: float, theirs: float, note: str = "") -> None:
    print(f"{name:44}{ours * 1000:12.1f} ms{theirs * 1000:12.1f} ms{ours / theirs:8.2f}{note:>14}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, nargs="+", default=[1000, 5000, 20_000])
    options = parser.parse_args()
    print(f"{'':44}{'ours':>15}{'theirs':>15}{'ratio':>8}{'ours a step':>14}")
    compile_text(playbook(RICH, 10))
    for name, step in (("lean", LEAN), ("rich", RICH)):
        for count in options.steps:
            ours, theirs = compilation(step, count, options.rounds)
            row(f"compile {count:,} {name} steps", ours, theirs, f"{ours / count * 1000:.3f} ms")
    for expression in CONDITIONS:
        row(f"{PREDICATES:,} times {expression}", *condition(expression, options.rounds))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "small.yaml"
        file.write_text(playbook(RICH, 5))
        row("noetl compile, a process", *processes("-m", "noetl_temporal.cli", "compile", str(file)))
    row("import of compile_text, a process", *processes("-c", "from noetl_compiler import compile_text"))


if __name__ == "__main__":
    main()
