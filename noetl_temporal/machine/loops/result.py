"""What a loop's name gives to templates, and how its step ends."""

from __future__ import annotations

from noetl_compiler.graph import Json, Step
from noetl_temporal.machine.call import Outcome
from noetl_temporal.machine.failing import error_outcome
from noetl_temporal.machine.tasks.pipeline import End

__all__ = ["ITEMS_FAILED", "NO_ITEMS", "loop_end", "loop_result"]

ITEMS_FAILED = "loop"
"""The kind of error of a loop of which items failed."""

NO_ITEMS = {"total": 0, "success": 0, "failed": 0, "skipped": 0}


def loop_end(step: Step, dialect: str, results: list[Json], stats: dict[str, int]) -> End:
    """The step fails when an iteration did, unless the loop says best_effort (semantics.md 22)."""
    outcome = loop_result(dialect, results, stats)
    is_tolerant = step.loop is not None and step.loop.failure == "best_effort"
    if is_tolerant or not stats.get("failed"):
        return End("ok", outcome, None, step.span)
    message = f"{stats['failed']} of {stats['total']} iterations failed"
    return End("error", {**outcome, **error_outcome(ITEMS_FAILED, message)}, None, step.span)


def loop_result(dialect: str, results: list[Json], stats: dict[str, int]) -> Outcome:
    """Results in index order with their counts; the older dialects know them as a plain list."""
    result: Json = {"results": results, "stats": stats} if dialect in ("v10", "case") else results
    return {"status": "ok", "result": result, "meta": {"stats": stats}}
