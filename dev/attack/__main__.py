"""Attack the guards, and print how many attacks were stopped.

    python -m dev.attack                                         all classes, some 1,300 attacks
    python -m dev.attack --class templates --class yaml          these classes
    python -m dev.attack --class yaml --attacks 1000 --seed 7    more of them, and others

Each class has controls, which must show the effect of their attack while the guard is switched off. The exit status is
1 if an attack succeeds, or if a control does not succeed or fails in another way (it is broken). Nothing is sent beyond
this machine: the address guard is called without connecting, and all servers run on loopback.
"""

from __future__ import annotations

import argparse
import sys

from dev.attack.classes import CLASSES
from dev.attack.runner import Tally, run_class
from noetl_compiler.printable import printable_line

ATTACKS = 90
"""The default number of attacks of a class."""


def main() -> int:
    """Return the exit status."""
    options = _arguments()
    tallies: list[Tally] = []
    print(f"{'class':15} {'tried':>6} {'stopped':>8} {'controls':>9} {'seconds':>8} {'peak MB':>8}")
    for name in options.classes or CLASSES:
        tallies.append(run_class(CLASSES[name], options.seed, options.attacks))
        _print(name, tallies[-1])
    total, total_stopped = sum(tally.tried for tally in tallies), sum(tally.stopped for tally in tallies)
    print(f"{'in all':15} {total:6} {total_stopped:8}")
    return int(not all(tally.is_fine for tally in tallies))


def _print(name: str, tally: Tally) -> None:
    if tally.missing:
        print(f"{name:15} not run: {tally.missing}", flush=True)
        return
    controls = f"{tally.controls - len(tally.held) - len(tally.broken)} of {tally.controls}"
    peak = f"{tally.peak_bytes / 1e6:8.0f}"
    print(f"{name:15} {tally.tried:6} {tally.stopped:8} {controls:>9} {tally.seconds:8.1f} {peak}", flush=True)
    for attack in tally.through:
        print(printable_line(f"    not stopped: {attack}"))
    for attack in tally.held:
        print(printable_line(f"    a control did not get through: {attack}"))
    for attack in tally.broken:
        print(printable_line(f"    a control is broken: {attack}"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dev.attack", description=(__doc__ or "").split("\n")[0])
    class_help = f"of {', '.join(CLASSES)}; may be given several times; all of them by default"
    parser.add_argument("--class", dest="classes", action="append", choices=CLASSES, metavar="CLASS", help=class_help)
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same attacks")
    parser.add_argument("--attacks", type=int, default=ATTACKS, metavar="N", help="attacks of a class")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
