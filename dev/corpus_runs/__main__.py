"""Run the playbooks of the corpus that need no cloud on one stack, and compare them with dev/corpus_runs.tsv.

    python -m dev.corpus_runs                       all of them
    python -m dev.corpus_runs --match pagination    those with this in their path; several with commas between
    python -m dev.corpus_runs --corpus FOLDER       where the corpus is, if not beside this repository

It starts a stack and the test server, and stops both. The exit status is 1 when a run or its rows differ.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from dev.corpus_runs.copied import copy_corpus
from dev.corpus_runs.running import Corpus, Outcome
from dev.corpus_runs.table import NOT_RUN, Expected, expected_runs
from dev.killing.stack import ROOT, Api, Stack, wait_until
from noetl_temporal.client import NoetlClient
from noetl_temporal.environment import SIGNING_KEY_VARIABLE


def main() -> int:
    """Return the exit status."""
    options = _arguments()
    parts = options.match.split(",")
    expected = expected_runs()
    selected = [run for run in expected.values() if run.status != NOT_RUN and any(part in run.file for part in parts)]
    with tempfile.TemporaryDirectory(prefix="noetl-corpus-") as name, Api() as api:
        folder = Path(name)
        copy_corpus(options.corpus, folder / "corpus", api.url)
        stack = Stack(folder)
        stack.up()
        try:
            outcomes = asyncio.run(_run_all(options, selected, expected, folder / "corpus", stack, api))
        finally:
            stack.down()
            wait_until(lambda: stack.home.owner() is None, 60, "the stack is down")
    different = [run for run in outcomes if run.differences]
    print(f"{len(outcomes) - len(different)} of {len(outcomes)} playbooks run as the table says")
    return int(bool(different))


async def _run_all(
    options: argparse.Namespace,
    selected: list[Expected],
    expected: dict[str, Expected],
    folder: Path,
    stack: Stack,
    api: Api,
) -> list[Outcome]:
    addresses = stack.addresses
    os.environ[SIGNING_KEY_VARIABLE] = addresses.signing_key_file
    client = await NoetlClient.connect(addresses.temporal, dsn=addresses.postgres)
    corpus = Corpus(client, folder, addresses.playbooks, api.url, expected, options.limit)
    outcomes: list[Outcome] = []
    for run in selected:
        outcomes.append(await corpus.compare(run))
        _print(outcomes[-1], verbose=options.verbose)
    return outcomes


def _print(run: Outcome, *, verbose: bool) -> None:
    if run.differences or verbose:
        print(f"{run.file}: {'; '.join(run.differences) or run.status} ({run.seconds:.1f} s)", flush=True)
        if run.reason:
            print(f"    {run.reason}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dev.corpus_runs", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--corpus", type=Path, default=ROOT.parent / "shared/corpus", help="the folder of the corpus")
    parser.add_argument("--match", default="", help="parts of paths, with commas between them")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that a run may take")
    parser.add_argument("--verbose", "-v", action="store_true", help="print every playbook")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
