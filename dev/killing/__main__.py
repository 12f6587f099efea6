"""Kill the embedded stack's processes at random times during loops of HTTP calls, and check the results.

    python -m dev.killing --kills 20                           worker, mirror, Postgres and Temporal in turn
    python -m dev.killing --kills 50 --which worker,postgres   only these
    python -m dev.killing --items 500 --minutes 3              a shorter loop; no kill after so many minutes
    python -m dev.killing --framed --kills 20                  the items run in frames, many in one activity
    python -m dev.killing --cursor --kills 20                  the items are rows that the loop claims
    python -m dev.killing --cursor --steps --kills 20          each row runs several steps
    python -m dev.killing --cursor --freeze --kills 3          a worker is frozen past its leases, and continues
    python -m dev.killing --sub-playbooks --items 100          each item is a call of a playbook
    python -m dev.killing --pauses --kills 10                  the run is paused around each kill
    python -m dev.killing --resets --kills 10                  the run is also reset, just before or after each kill

Runs follow each other until enough kills fell between loop.started and loop.done. Each item must have its row once or
a recorded failure, and no call that reported may be repeated. In a frame, that holds for calls that a heartbeat
reported as ended before a kill; others may be repeated, and are counted. Each claimed row must be acknowledged
once, and each playbook called once. The exit status is 1 if this does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from dev.killing import cursor, sub_playbooks
from dev.killing.heartbeat_items import HeartbeatItems, calls_by_item
from dev.killing.pauses import paused_run
from dev.killing.playbook import plain_loop
from dev.killing.resets import has_ended, reset
from dev.killing.stack import PARTS, Api, Stack, wait_until
from dev.killing.verdict import Verdict, loop_times, verdict_of
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.environment import SIGNING_KEY_VARIABLE
from tests.audit import audit_execution

PROBE = "/api/v1/concurrency/probe"
END_SECONDS = 240.0

LEASE_SECONDS = 20
SHORT_LEASE_SECONDS = 4
FROZEN_SECONDS = (25.0, 35.0)
"""Longer than the lease, and than the time after which Temporal gives a worker up (performer.HEARTBEAT_TIMEOUT)."""


class Killing:
    """All runs, and the kills during their loops according to the times in the log."""

    def __init__(self, options: argparse.Namespace, stack: Stack, api: Api) -> None:
        self.options, self.stack, self.api = options, stack, api
        self.rng = random.Random(options.seed)
        self.within: Counter[str] = Counter()
        self.outside: Counter[str] = Counter()
        self.resets = 0
        self.verdicts: list[Verdict] = []
        self.text = self._text()

    def _text(self) -> str:
        if self.options.cursor:
            lease = SHORT_LEASE_SECONDS if self.options.freeze else LEASE_SECONDS
            return cursor.cursor_loop(lease, over_steps=self.options.steps)
        return plain_loop(framed=self.options.framed)

    async def run_until_killed(self) -> None:
        """Run playbooks until enough kills fell into a loop, or the time is over."""
        deadline = time.monotonic() + self.options.minutes * 60
        while self.within.total() < self.options.kills and time.monotonic() < deadline:
            heartbeat_items = HeartbeatItems(self.api, PROBE)
            run = await self._submit()
            execution_id = run.execution_id
            kills = await self._kill_during_loop(run, heartbeat_items, deadline)
            await self._wait_for_end(run)
            loop_start, loop_end = await loop_times(self._dsn, execution_id)
            for part, at in kills:
                is_within = loop_start is not None and loop_start <= at and (loop_end is None or at <= loop_end)
                (self.within if is_within else self.outside)[part] += 1
            verdict = await self._verdict(execution_id, heartbeat_items)
            verdict.problems += [f"the log: {problem}" for problem in await audit_execution(self._dsn, execution_id)]
            self.verdicts.append(verdict)
            print(
                f"run {execution_id}: {len(kills)} kills, {verdict.status}, {len(verdict.problems)} problems",
                flush=True,
            )

    async def _verdict(self, execution_id: int, heartbeat_items: HeartbeatItems) -> Verdict:
        addresses, items, calls = self.stack.addresses, self.options.items, self.api.calls(PROBE)
        if self.options.sub_playbooks:
            calls_of_item = calls_by_item(calls, execution_id)
            return await sub_playbooks.verdict_of_calls(addresses, execution_id, items, calls_of_item)
        if self.options.cursor:
            return await cursor.verdict_of_rows(addresses, execution_id, items, calls_by_item(calls, execution_id))
        are_all_logged = not (self.options.framed or self.options.resets)
        return await verdict_of(addresses, execution_id, items, calls, heartbeat_items, are_all_logged=are_all_logged)

    @property
    def _dsn(self) -> str:
        return self.stack.addresses.postgres

    async def _submit(self) -> RunHandle:
        os.environ[SIGNING_KEY_VARIABLE] = self.stack.addresses.signing_key_file
        client = await NoetlClient.connect(self.stack.addresses.temporal, dsn=self._dsn)
        payload = {"api": self.api.url + PROBE, "items": self.options.items}
        if self.options.sub_playbooks:
            return await client.submit(str(sub_playbooks.write_playbooks(self.stack.folder)), payload)
        return await client.submit(compile_or_raise(self.text), payload, content=self.text)

    async def _kill_during_loop(
        self, run: RunHandle, heartbeat_items: HeartbeatItems, deadline: float
    ) -> list[tuple[str, datetime]]:
        """Kill processes while the loop runs: each part in turn, 2 to 6 s apart."""
        kills: list[tuple[str, datetime]] = []
        while self.within.total() + len(kills) < self.options.kills and time.monotonic() < deadline:
            await asyncio.sleep(self.rng.uniform(*self.options.pause))
            loop_start, loop_end = await self._times(run.execution_id)
            if loop_end is not None and (not self.options.resets or await self._has_ended(run)):
                break
            if loop_start is None:
                continue
            if self.options.framed:
                await heartbeat_items.read_heartbeats(self.stack, run)
            part, at = self.rng.choice(self.options.which), datetime.now(UTC)
            if await self._disturb(run, part):
                kills.append((part, at))
        return kills

    async def _disturb(self, run: RunHandle, part: str) -> bool:
        """Kill the part, or freeze it, or kill it while the run is paused; return False if it is not running."""
        if self.options.freeze:
            return await asyncio.to_thread(self.stack.freeze, part, self.rng.uniform(*FROZEN_SECONDS))
        if self.options.resets:
            return await self._kill_and_reset(run, part)
        if not self.options.pauses:
            return self.stack.kill(part)
        async with paused_run(run, self.rng) as is_paused:
            return is_paused and self.stack.kill(part)

    async def _kill_and_reset(self, run: RunHandle, part: str) -> bool:
        """Reset the run at about the time of the kill, in any order."""
        is_reset_first, is_killed = self.rng.random() < 0.5, False
        if is_reset_first:
            await self._reset(run)
            await asyncio.sleep(self.rng.uniform(0, 0.5))
        is_killed = self.stack.kill(part)
        if not is_reset_first:
            await self._reset(run)
        return is_killed

    async def _reset(self, run: RunHandle) -> None:
        client = await NoetlClient.connect(self.stack.addresses.temporal, dsn=self._dsn)
        self.resets += await reset(client, run.workflow_id, self.rng)

    async def _times(self, execution_id: int) -> tuple[datetime | None, datetime | None]:
        try:
            return await loop_times(self._dsn, execution_id)
        except (OSError, RuntimeError):
            return None, None

    async def _has_ended(self, run: RunHandle) -> bool:
        client = await NoetlClient.connect(self.stack.addresses.temporal, dsn=self._dsn)
        return await has_ended(client, run.workflow_id)

    async def _wait_for_end(self, run: RunHandle) -> None:
        """Wait for the end of the run; a run that a reset superseded may have ended before."""
        execution_id, deadline = run.execution_id, time.monotonic() + END_SECONDS
        while time.monotonic() < deadline:
            if await self._has_ended(run) and (await self._times(execution_id))[1] is not None:
                await asyncio.sleep(3)  # the last rows of the log come with the run's end, just after the loop's
                return
            await asyncio.sleep(0.5)
        raise TimeoutError(f"run {execution_id} has not ended {END_SECONDS:g} s after the last kill")

    def print_table(self) -> int:
        """Print the results; return the number of problems."""
        problems = [
            f"run {verdict.execution_id}: {problem}" for verdict in self.verdicts for problem in verdict.problems
        ]
        print(f"\n{'part':10} {'in a loop':>10} {'outside':>8}")
        for part in self.options.which:
            print(f"{part:10} {self.within[part]:10} {self.outside[part]:8}")
        print(f"{'all':10} {self.within.total():10} {self.outside.total():8}\n")
        if self.options.resets:
            print(f"{self.resets} resets\n")
        print(
            f"{'run':20} {'status':10} {'items':>6} {'rows':>6} {'failed':>6} {'calls':>6} {'lost':>5}"
            f" {'ended':>6} {'repeated':>8} {'problems':>8}"
        )
        for verdict in self.verdicts:
            counts = (
                f"{verdict.rows:6} {verdict.failed:6} {verdict.calls:6} {verdict.lost_attempts:5}"
                f" {verdict.ended_items:6} {verdict.repeated_calls:8} {len(verdict.problems):8}"
            )
            print(f"{verdict.execution_id:20} {verdict.status:10} {self.options.items:6} {counts}")
        totals = Counter[str]()
        for verdict in self.verdicts:
            totals.update(verdict.failures)
        print(
            "\n".join(
                [
                    "",
                    *(f"{count:5} items failed: {reason[:100]}" for reason, count in totals.most_common(5)),
                    *problems[:20],
                ]
            )
        )
        return len(problems)


def main() -> int:
    """Return the exit status."""
    options = _arguments()
    with tempfile.TemporaryDirectory(prefix="noetl-killing-") as folder, Api() as api:
        stack = Stack(Path(folder))
        stack.up()
        killing = Killing(options, stack, api)
        try:
            with stack.spare_worker() if options.freeze else nullcontext():
                asyncio.run(killing.run_until_killed())
        finally:
            problems = killing.print_table()
            stack.down()
            wait_until(lambda: stack.home.owner() is None, 60, "the stack is down")
    return int(bool(problems))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dev.killing", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=200, help="number of kills during loops")
    parser.add_argument("--items", type=int, default=2000, help="items of each loop")
    parser.add_argument("--which", type=lambda text: text.split(","), default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--minutes", type=float, default=60.0, help="start no run and kill nothing after this time")
    parser.add_argument(
        "--pause",
        type=float,
        nargs=2,
        default=(2.0, 6.0),
        metavar="S",
        help="minimum and maximum of seconds between kills",
    )
    parser.add_argument("--framed", action="store_true", help="run the items in frames")
    parser.add_argument("--cursor", action="store_true", help="claim the items as rows of a table")
    parser.add_argument("--steps", action="store_true", help="with --cursor: each row runs several steps")
    parser.add_argument("--sub-playbooks", action="store_true", help="call a playbook for each item")
    parser.add_argument("--pauses", action="store_true", help="pause the run, kill, and resume it")
    parser.add_argument("--resets", action="store_true", help="reset the run at about the moment of each kill")
    parser.add_argument("--freeze", action="store_true", help="freeze a worker past its leases, and let it continue")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.freeze:
        options.which = ["worker"]
    return options


if __name__ == "__main__":
    sys.exit(main())
