"""The result of a loop, and how its step ends."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from noetl_compiler.graph import Json, NamesProfile, Step
from noetl_temporal.machine.call import PlainOutcome, StoredRef
from noetl_temporal.machine.failures import error_outcome
from noetl_temporal.machine.stored import with_stored
from noetl_temporal.machine.tasks.task_executions import End

__all__ = ["ITEMS_FAILED", "loop_end", "loop_result", "too_large"]

ITEMS_FAILED = "loop"
"""The error kind of a loop with failed items."""


def loop_end(
    step: Step, names: NamesProfile, results: list[Json], stats: dict[str, int], reference: StoredRef | None = None
) -> End:
    """Return the end of a loop step. It fails if an iteration failed, unless the loop has best_effort (semantics.md
    22). ``reference`` is set if the results are stored.
    """
    outcome = loop_result(names, results, stats, reference)
    is_tolerant = step.loop is not None and step.loop.failure == "best_effort"
    if is_tolerant or not stats.get("failed"):
        return End("ok", outcome, None, step.span)
    message = f"{stats['failed']} of {stats['total']} iterations failed"
    return End("error", {**outcome, **error_outcome(ITEMS_FAILED, message)}, None, step.span)


def loop_result(
    names: NamesProfile, results: list[Json], stats: dict[str, int], reference: StoredRef | None = None
) -> PlainOutcome:
    """Return the outcome of a loop: its results in index order, with ``stats`` unless the profile has only results."""
    has_stats, outcome = not names.listed_results, {"status": "ok", "meta": {"stats": stats}}
    if reference is not None:
        if has_stats:
            container: dict[str, Json] = {"results": None, "stats": stats}
            reference = replace(reference, pointer="/results", container=container)
        return with_stored(outcome, reference)
    return {**outcome, "result": {"results": results, "stats": stats} if has_stats else results}


def too_large(results: list[Json], limit: int) -> PlainOutcome | None:
    """Return the failure of results with more than ``limit`` bytes; None for smaller ones."""
    if len(msgspec.json.encode(results)) <= limit:
        return None
    message = f"the results of {len(results):,} items have over {limit:,} bytes: store them in a sink"
    return error_outcome("too_large", f"{message}, or set NOETL_POSTGRES")
