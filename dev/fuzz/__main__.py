"""Feed the compiler generated input for some minutes, and keep the input that it cannot handle.

    python -m dev.fuzz reader --minutes 10                 mutated text
    python -m dev.fuzz templates --minutes 10              random templates, checked and rendered
    python -m dev.fuzz playbooks --minutes 10 --seed 7     mutated structure: compiled, previewed, forecast, migrated

A finding is an exception, a case that takes longer than its limit, or memory over the limit. Each kind is written once
into the folder of ``--keep``, and the exit status is 1. A finding that is understood becomes a test.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from dev.fuzz import playbooks, templates, texts

ROOT = Path(__file__).parents[2]
SEEDS = tuple(
    ROOT / folder
    for folder in ("tests/compiler/corpus", "dev/examples", "dev/older_examples", "tests/acceptance/playbooks")
)
MEMORY_BYTES = 2 * 1024**3

Subject = tuple[Callable[[random.Random, list[str]], str], Callable[[str], None], float]
SUBJECTS: dict[str, Subject] = {
    "reader": (texts.mutated_seed, texts.check_compiling, 3.0),
    "templates": (templates.random_template, templates.check_template, 2.0),
    "playbooks": (playbooks.mutated_seed, playbooks.check_views, 5.0),
}
"""The functions that make and process a case, and the seconds that it may take."""


def main() -> int:
    """Return the exit status: 1 if there is a finding."""
    options = _arguments()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    make, process, limit = SUBJECTS[options.subject]
    files = (file for folder in options.seeds for file in sorted(folder.rglob("*.y*ml")))
    seeds = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    rng, end = random.Random(options.seed), time.monotonic() + options.minutes * 60
    options.keep.mkdir(parents=True, exist_ok=True)
    by_name: dict[str, Path] = {}
    cases = 0
    while time.monotonic() < end:
        case = make(rng, seeds)
        cases += 1
        finding = _finding(process, case, limit)
        if finding and finding.splitlines()[-1] not in by_name:
            file = options.keep / f"{options.subject}-{options.seed}-{len(by_name) + 1}.txt"
            file.write_text(case, encoding="utf-8", errors="surrogatepass")
            by_name[finding.splitlines()[-1]] = file
            print(f"{finding}\n{file}\n", flush=True)
    print(f"{cases:,} cases, {len(by_name)} kinds of findings")
    return int(bool(by_name))


def _finding(process: Callable[[str], None], case: str, limit: float) -> str:
    """Return the problem, whose last line names its kind, or the empty string."""
    start = time.process_time()
    try:
        process(case)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        return f"{traceback.format_exc()}{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}"
    seconds = time.process_time() - start
    return f"took {seconds:.1f} s\nslow" if seconds > limit else ""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dev.fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same cases")
    parser.add_argument(
        "--seeds", type=Path, nargs="+", default=SEEDS, metavar="FOLDER", help="playbooks to begin with"
    )
    parser.add_argument("--keep", type=Path, default=Path(), metavar="FOLDER", help="where findings are written")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
