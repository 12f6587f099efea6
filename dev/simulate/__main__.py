"""Run random playbooks in a random world for some minutes, and report which invariants are broken.

    python -m dev.simulate --minutes 10              seeds from 1 on
    python -m dev.simulate --seed 42                 one seed, with its playbook and its facts if an invariant is broken
    python -m dev.simulate --seed 1000 --count 500   these seeds
    python -m dev.simulate --temporal 20             20 playbooks on Temporal, compared with the machine alone
    python -m dev.simulate --mutations --minutes 2   each safeguard disabled, for at most 2 minutes of CPU

A broken invariant is reported once, with the first seed that breaks it; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections import Counter
from collections.abc import Iterator

from dev.simulate.mutation import MissingTargetError, Mutation, run_mutation
from dev.simulate.mutations import MUTATIONS
from dev.simulate.run_trace import MachineTrace
from dev.simulate.runs import Result, simulate
from dev.simulate.temporal import compare

PRINTED_FACTS = 60


def main() -> int:
    """Return the exit status."""
    options = _arguments()
    if options.mutations:
        return _run_mutations(options.minutes or 2.0, options.seed or 1, options.only)
    if options.temporal:
        return compare(options.temporal, options.seed or 1)
    start = time.monotonic()
    runs: Counter[str] = Counter()
    seeds_by_invariant: dict[str, list[int]] = {}
    with contextlib.suppress(KeyboardInterrupt):
        for seed in _seeds(options, start):
            result = simulate(seed)
            runs[_status(result)] += 1
            if result.finding is not None:
                seeds = seeds_by_invariant.setdefault(result.finding.invariant, [])
                seeds.append(seed)
                if len(seeds) == 1:
                    _print(result, time.monotonic() - start, whole=not options.brief)
    _print_summary(runs, seeds_by_invariant, time.monotonic() - start)
    return int(bool(seeds_by_invariant))


def _run_mutations(minutes: float, first_seed: int, only: str) -> int:
    """Check that every mutation is detected within the given minutes of CPU."""
    undetected = 0
    for mutation in MUTATIONS:
        if only not in mutation.safeguard:
            continue
        undetected += not _is_detected(mutation, first_seed, minutes * 60)
    print(f"{undetected} not detected")
    return int(bool(undetected))


def _is_detected(mutation: Mutation, first_seed: int, seconds: float) -> bool:
    try:
        verdict = run_mutation(mutation, first_seed, seconds)
    except MissingTargetError as error:
        print(f"{mutation.safeguard:47} TARGET MISSING: {error}", flush=True)
        return False
    detection = f"{verdict.invariant} (seed {verdict.seed})" if verdict.invariant else "NOT DETECTED"
    print(f"{mutation.safeguard:47} {verdict.seeds:5} seeds {verdict.seconds:4.0f} s  {detection}", flush=True)
    return bool(verdict.invariant)


def _seeds(options: argparse.Namespace, start: float) -> Iterator[int]:
    first_seed = 1 if options.seed is None else options.seed
    if options.minutes is None:
        yield from range(first_seed, first_seed + (options.count or 1))
        return
    seed = first_seed
    while time.monotonic() < start + options.minutes * 60 and (
        options.count is None or seed < first_seed + options.count
    ):
        yield seed
        seed += 1


def _status(result: Result) -> str:
    if result.run_trace is None:
        return "refused by the compiler"
    finish = result.run_trace.main.finish
    return "not ended" if finish is None else finish.status


def _print(result: Result, seconds: float, *, whole: bool) -> None:
    print(f"\n==== seed {result.seed}, after {seconds:.0f} s: {result.finding}", flush=True)
    if not whole or result.run_trace is None:
        return
    print(result.text)
    for trace in result.run_trace.traces.values():
        _print_facts(trace)
    print(f"to repeat: python -m dev.simulate --seed {result.seed}", flush=True)


def _print_facts(trace: MachineTrace) -> None:
    print(f"---- {trace.name or 'the playbook'}: {len(trace.turns)} facts")
    start = trace.turns[0].fact.at if trace.turns else 0
    for number, turn in enumerate(trace.turns[-PRINTED_FACTS:], max(0, len(trace.turns) - PRINTED_FACTS)):
        suffix = " after continue-as-new" if turn.is_restored else ""
        print(f"{number:5} {turn.fact.at - start:8} ms{suffix} {str(turn.fact)[:300]}")
        for command in turn.commands:
            print(f"{'':10} -> {str(command)[:220]}")


def _print_summary(runs: Counter[str], seeds_by_invariant: dict[str, list[int]], seconds: float) -> None:
    counts = ", ".join(f"{count:,} {kind}" for kind, count in runs.most_common())
    print(f"\n{sum(runs.values()):,} playbooks in {seconds:.0f} s: {counts or 'none'}")
    for invariant, seeds in sorted(seeds_by_invariant.items(), key=lambda entry: -len(entry[1])):
        print(f"{len(seeds):6} {invariant}: seeds {', '.join(map(str, seeds[:5]))}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dev.simulate", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, help="how long to run")
    parser.add_argument("--seed", type=int, help="the first seed, 1 unless given")
    parser.add_argument("--count", type=int, help="how many seeds, 1 unless given")
    parser.add_argument("--brief", action="store_true", help="print findings without playbook and facts")
    parser.add_argument("--mutations", action="store_true", help="check that every mutation is detected")
    parser.add_argument("--temporal", type=int, metavar="N", help="compare N playbooks with the same on Temporal")
    parser.add_argument("--only", default="", help="only the mutations whose safeguard has this text")
    options = parser.parse_args()
    if not (options.mutations or options.temporal or options.minutes or options.seed is not None or options.count):
        options.minutes = 10.0
    return options


if __name__ == "__main__":
    sys.exit(main())
