"""The words that the keys of a playbook can have as their value, each with its meaning and a description.

A table maps each word to its meaning, the value in the syntax tree. ``about`` describes the words for people, in the
JSON Schema and in ``noetl explain``. A word whose meaning is another word is an older spelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Generic, Literal, TypeAlias, TypeVar

__all__ = [
    "ACTIONS",
    "BACKOFFS",
    "BRANCH_FAILURES",
    "CASE_ON_ERROR",
    "COLLECT_MODES",
    "DIALECTS",
    "FAILURE_ACTIONS",
    "FRAME_PROCESSES",
    "FRAME_RETRIES",
    "ITEM_ERRORS",
    "JOINS",
    "LOOP_FAILURES",
    "LOOP_MODES",
    "NO_MATCH",
    "ON_STATUS",
    "PROFILES",
    "REDUCERS",
    "ROUTE_MODES",
    "RUN_RESULTS",
    "SINK_LEVELS",
    "SINK_MODES",
    "STRATEGIES",
    "UNMATCHED",
    "V1_ON_ERROR",
    "Action",
    "Backoff",
    "BranchFailure",
    "CaseOnError",
    "CollectMode",
    "Dialect",
    "FailureAction",
    "ItemError",
    "Join",
    "LoopFailure",
    "LoopMode",
    "NoMatch",
    "OnStatus",
    "RouteMode",
    "RunResult",
    "SinkLevel",
    "SinkMode",
    "Status",
    "Strategy",
    "Unmatched",
    "Words",
]

Meaning = TypeVar("Meaning")


class Words(Mapping[str, Meaning], Generic[Meaning]):
    """Word -> meaning. ``about`` is word -> description, in the same order."""

    __slots__ = ("_meanings", "about")

    def __init__(self, *words: tuple[str, Meaning, str]) -> None:
        self._meanings = {word: meaning for word, meaning, _ in words}
        self.about: Mapping[str, str] = MappingProxyType({word: about for word, _, about in words})

    def __getitem__(self, word: str) -> Meaning:
        return self._meanings[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self._meanings)

    def __len__(self) -> int:
        return len(self._meanings)


# ---- calls and their outcomes ----------------------------------------------------------------------------------------

Status: TypeAlias = Literal["ok", "error"]
"""How a call ended."""

OnStatus: TypeAlias = Literal["any", "ok", "error"]
ON_STATUS: Words[OnStatus] = Words(
    ("ok", "ok", "Only after a success."),
    ("error", "error", "Only after a failure."),
    ("any", "any", "After both."),
)
"""After which status a rule, a route or a guard applies."""

RunResult: TypeAlias = Literal["completed", "partial", "failed"]
RUN_RESULTS: Words[RunResult] = Words(
    ("completed", "completed", "The run is completed, whatever failed."),
    ("partial", "partial", "The run is completed, and its status says that some of it failed."),
    ("failed", "failed", "The run has failed."),
)
"""How a run that was not stopped ends (semantics.md 35)."""

Action: TypeAlias = Literal["continue", "retry", "again", "jump", "break", "fail"]
ACTIONS: Words[Action] = Words(
    ("continue", "continue", "Continue with the next task, also after an error."),
    ("retry", "retry", "Call again after a failure, at most attempts times in total."),
    ("again", "again", "Call again after a success: for the next page, or to poll."),
    ("jump", "jump", "Continue with the task that to names."),
    ("break", "break", "End the tasks of the step; the step succeeds."),
    ("fail", "fail", "End the tasks of the step; the step fails."),
)
"""What a policy rule does (semantics.md 17)."""

Unmatched: TypeAlias = Literal["continue", "fail"]
UNMATCHED: Words[Unmatched] = Words(
    ("continue", "continue", "Continue with the next task, as if there had been no error; the default."),
    ("fail", "fail", "The task and its step fail."),
)
"""What follows an error that no rule matches."""

Backoff: TypeAlias = Literal["none", "linear", "exponential"]
BACKOFFS: Words[Backoff] = Words(
    ("none", "none", "Every delay is as long as the first; the default."),
    ("linear", "linear", "The delay grows by the first delay each time: 2, 4, 6 seconds."),
    ("exponential", "exponential", "The delay doubles each time: 2, 4, 8 seconds."),
    ("fixed", "none", 'Another word for "none".'),
    ("constant", "none", 'Another word for "none".'),
)
"""How a delay grows from call to call."""

Strategy: TypeAlias = Literal["append", "replace", "collect", "merge"]
STRATEGIES: Words[Strategy] = Words(
    ("append", "append", "The items are appended to a list."),
    ("extend", "append", 'Another word for "append".'),
    ("replace", "replace", "The last result is kept."),
    ("collect", "collect", "Whole results are collected in a list."),
    ("merge", "merge", "Mappings are merged."),
)
"""How the results of repeated calls become one."""

CollectMode: TypeAlias = Literal["append", "extend", "replace"]
COLLECT_MODES: Words[CollectMode] = Words(
    ("append", "append", "The value is appended as one item; the default."),
    ("extend", "extend", "The items of the value are appended."),
    ("replace", "replace", "The previous value is replaced."),
)
"""How a rule of the case dialect adds a value to a name."""

CaseOnError: TypeAlias = Literal["fail", "continue", "retry"]
CASE_ON_ERROR: Words[CaseOnError] = Words(
    ("fail", "fail", "The step fails; the default."),
    ("continue", "continue", "The step continues."),
    ("retry", "retry", "The call is repeated."),
)
"""What follows an error that no rule of the case dialect decides."""

V1_ON_ERROR: Words[Unmatched] = Words(
    ("continue", "continue", "A failed call counts as a success."),
    ("fail", "fail", "The step fails."),
    ("stop", "fail", 'Another word for "fail".'),
)
"""What follows a failed call of the v1 dialect."""

# ---- routes and branches --------------------------------------------------------------------------------------------

RouteMode: TypeAlias = Literal["exclusive", "inclusive"]
ROUTE_MODES: Words[RouteMode] = Words(
    ("exclusive", "exclusive", "Follow the first route whose condition holds; the default."),
    ("inclusive", "inclusive", "Follow all routes whose condition holds, in parallel."),
)
"""Whether the first or all that match are followed, of routes and of the rules of the case dialect."""

NoMatch: TypeAlias = Literal["end", "complete", "quiet"]
NO_MATCH: Words[NoMatch] = Words(
    ("end", "end", "Go to the final step; the default."),
    ("complete", "complete", "The run completes here."),
    ("quiet", "quiet", "This branch ends silently."),
)
"""What happens when no route matches."""

Join: TypeAlias = Literal["wave", "any", "each"]
JOINS: Words[Join] = Words(
    ("wave", "wave", "Once, when no other route can still reach it; the default."),
    ("any", "any", "Once, for the first route that reaches it."),
    ("each", "each", "Once for each route that reaches it."),
)
"""When a step that several routes lead to runs."""

BranchFailure: TypeAlias = Literal["best_effort", "fail_fast"]
BRANCH_FAILURES: Words[BranchFailure] = Words(
    ("best_effort", "best_effort", "Other branches continue and join at the final step; the default."),
    ("fail_fast", "fail_fast", "Other branches are cancelled."),
)
"""The effect of an unhandled failure on the other branches."""

FailureAction: TypeAlias = Literal["fail", "hold"]
FAILURE_ACTIONS: Words[FailureAction] = Words(
    ("fail", "fail", "The step has failed, and its routes decide; the default."),
    ("hold", "hold", "The failed step waits until a person retries or skips it."),
)
"""What happens when a step has failed."""

# ---- loops ----------------------------------------------------------------------------------------------------------

LoopMode: TypeAlias = Literal["sequential", "parallel", "chunked"]
LOOP_MODES: Words[LoopMode] = Words(
    ("sequential", "sequential", "One iteration after the other, in order; the default."),
    ("parallel", "parallel", "Up to max_in_flight iterations run concurrently."),
    ("chunked", "chunked", "Each iteration takes up to chunk_size items."),
    ("cursor", "parallel", "For a cursor: up to max_in_flight claimers run concurrently."),
    ("async", "parallel", 'An older word for "parallel".'),
    ("concurrent", "parallel", 'An older word for "parallel".'),
)
"""How the iterations of a loop run."""

ItemError: TypeAlias = Literal["continue", "fail_fast"]
ITEM_ERRORS: Words[ItemError] = Words(
    ("continue", "continue", "The other iterations continue; the default."),
    ("fail_fast", "fail_fast", "The first failed iteration ends the loop."),
    ("fail", "fail_fast", 'An older word for "fail_fast".'),
)
"""What a failed iteration means for the others."""

LoopFailure: TypeAlias = Literal["fail", "best_effort", "fail_fast"]
LOOP_FAILURES: Words[LoopFailure] = Words(
    ("fail", "fail", "The step fails when any iteration has failed; the default."),
    ("best_effort", "best_effort", "The step completes with the iterations that succeeded."),
    ("fail_fast", "fail_fast", "The first failed iteration ends the loop, and the step fails."),
)
"""What failed iterations mean for the step."""

REDUCERS: Words[str] = Words(
    ("append", "[]", "Each value is appended to a list as one item."),
    ("extend", "[*]", "The items of each value are appended to a list."),
    ("sum", "[+]", "The values are summed."),
    ("merge", "[|]", "Mappings are merged."),
)
"""How the values that iterations set are combined. The meaning is the suffix of an assignment's target."""

RowProcess: TypeAlias = Literal["row", "frame"]
FRAME_PROCESSES: Words[RowProcess] = Words(
    ("row", "row", "An iteration takes a row; the default."),
    ("frame", "frame", "An iteration takes all rows of a claim, as a list."),
)
"""What an iteration over the rows of a cursor takes."""

RowError: TypeAlias = Literal["ack", "release"]
ROW_ERRORS: Words[RowError] = Words(
    ("ack", "ack", "The row is acknowledged as failed; the default."),
    ("release", "release", "The row is released, until it has been claimed max_attempts times."),
)
"""What happens to a row whose iteration failed."""

FRAME_RETRIES: Words[str] = Words(
    ("whole_frame", "whole_frame", "The whole frame is repeated."),
    ("row", "row", "The row that failed is repeated."),
)
"""What is repeated after a row of a cursor has failed."""

# ---- sinks ----------------------------------------------------------------------------------------------------------

SinkMode: TypeAlias = Literal["insert", "append", "upsert", "replace", "merge"]
SINK_MODES: Words[SinkMode] = Words(
    ("insert", "insert", "Rows are added; the default."),
    ("append", "append", "Rows are added."),
    ("upsert", "upsert", "A row whose key exists is updated, any other is added."),
    ("replace", "replace", "The new rows replace all others."),
    ("merge", "merge", "Rows are merged with those of the same key."),
    ("update", "upsert", 'An older word for "upsert".'),
    ("overwrite", "replace", 'An older word for "replace".'),
)
"""How a sink stores rows."""

SinkLevel: TypeAlias = Literal["attempt", "task"]
SINK_LEVELS: Words[SinkLevel] = Words(
    ("attempt", "attempt", "The result of each call, and so of each page, is stored; the default."),
    ("task", "task", "The combined result of all calls is stored once."),
)
"""Which results a sink stores."""

# ---- playbooks ------------------------------------------------------------------------------------------------------

Dialect: TypeAlias = Literal["v1", "legacy", "case", "v10"]
DIALECTS: Words[Dialect] = Words(
    ("v1", "v1", "May to November 2025"),
    ("legacy", "legacy", "December 2025"),
    ("case", "case", "January 2026"),
    ("v10", "v10", "since February 2026"),
)
"""The dialects of playbooks, oldest first, and when they were written."""

_ANY_WORKER = "Wherever a worker is free."
PROFILES: Words[str] = Words(*((name, name, _ANY_WORKER) for name in ("auto", "local", "distributed")))
"""The values of ``profile``, where a playbook runs."""
