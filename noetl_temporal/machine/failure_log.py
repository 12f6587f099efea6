"""A log of failures: all are counted, some are recorded in detail.

A loop of a million items may fail a million times, and a run must remain small. So a log counts all failures by step
and kind, and has the details of the first MAX_DETAILED and the last MAX_DETAILED of them. Two logs are combined in one
of two orders: those of a loop's chunks in the order of its items, whatever order the chunks ended in
(``merged_by_index``); those of a playbook in the order of time (``followed_by``). The result is the same as if all
failures had been added to one log in that order, since the first and the last failures of the whole are among the first
and the last of the parts.

Kinds come from tools, so their number is limited: per step at most MAX_KINDS are counted separately, all others as
OTHER. The separate ones are the alphabetically first, so the result does not depend on the order in which logs are
merged.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

__all__ = ["MAX_DETAILED", "MAX_KINDS", "OTHER", "Failure", "FailureCount", "FailureLog", "format_counts"]

MAX_DETAILED = 50
"""How many of the first failures, and how many of the last ones, a log has in detail."""

MAX_KINDS = 20
"""How many kinds of failure are counted separately per step."""

OTHER = "other"


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A failure, with its position in the playbook. ``run`` is the id of the step run in which it occurred
    (``<step>#<n>``), ``iteration`` the index of the loop's item. It is ``handled`` if a route was followed after it.
    """

    step: str
    message: str
    task: str | None = None
    file: str = ""
    line: int = 0
    col: int = 0
    kind: str = ""
    iteration: int | None = None
    handled: bool = False
    run: str = ""


class FailureCount(msgspec.Struct, frozen=True, omit_defaults=True):
    """The failures of one ``kind`` in one ``step``: ``count`` in total, ``handled`` of them with a route."""

    step: str
    kind: str
    count: int
    handled: int = 0


class FailureLog(msgspec.Struct, frozen=True, omit_defaults=True):
    """The failures of a run or a loop.

    ``counts`` counts all failures, sorted by step and kind. ``first`` and ``last`` are the detailed ones, in order;
    ``last`` is empty until there are more than MAX_DETAILED. ``cause`` is the first one that was not handled.
    """

    counts: tuple[FailureCount, ...] = ()
    first: tuple[Failure, ...] = ()
    last: tuple[Failure, ...] = ()
    cause: Failure | None = None

    @property
    def total(self) -> int:
        """The number of failures."""
        return sum(entry.count for entry in self.counts)

    @property
    def unhandled(self) -> int:
        """The number of failures that were not handled."""
        return sum(entry.count - entry.handled for entry in self.counts)

    @property
    def detailed(self) -> tuple[Failure, ...]:
        """The failures that the log has in detail, in order; some between ``first`` and ``last`` may be missing."""
        return self.first + self.last

    def with_failure(self, failure: Failure) -> FailureLog:
        """Return this log with one more failure at its end."""
        return self.followed_by(_log_with(failure))

    def with_item_failure(self, failure: Failure) -> FailureLog:
        """Return this log with the failure of one more item."""
        return self.merged_by_index(_log_with(failure))

    def followed_by(self, later: FailureLog) -> FailureLog:
        """Return this log, followed by ``later``."""
        if not later.counts:
            return self
        return _join(self, later, self.detailed + later.detailed, self.cause or later.cause)

    def merged_by_index(self, other: FailureLog) -> FailureLog:
        """Return the logs of two chunks of one loop, in the order of its items."""
        failures = self.detailed + other.detailed
        if (
            self.detailed
            and other.detailed
            and _iteration_index(other.detailed[0]) < _iteration_index(self.detailed[-1])
        ):
            failures = tuple(sorted(failures, key=_iteration_index))
        causes = [log.cause for log in (self, other) if log.cause is not None]
        return _join(self, other, failures, min(causes, key=_iteration_index, default=None))

    def as_handled(self) -> FailureLog:
        """Return the same failures, all marked as handled."""
        return FailureLog(
            counts=tuple(msgspec.structs.replace(entry, handled=entry.count) for entry in self.counts),
            first=_as_handled(self.first),
            last=_as_handled(self.last),
        )


def _log_with(failure: Failure) -> FailureLog:
    count = FailureCount(failure.step, failure.kind, 1, int(failure.handled))
    return FailureLog((count,), (failure,), (), None if failure.handled else failure)


def _iteration_index(failure: Failure) -> int:
    return failure.iteration or 0


def _join(log: FailureLog, other: FailureLog, failures: tuple[Failure, ...], cause: Failure | None) -> FailureLog:
    return FailureLog(
        _add_counts(log.counts, other.counts), failures[:MAX_DETAILED], failures[MAX_DETAILED:][-MAX_DETAILED:], cause
    )


def _add_counts(counts: tuple[FailureCount, ...], more: tuple[FailureCount, ...]) -> tuple[FailureCount, ...]:
    """Return the sum of both, with at most MAX_KINDS kinds per step besides OTHER."""
    sums = {(entry.step, entry.kind): entry for entry in counts}
    size = len(sums)
    for entry in more:
        _add_count(sums, entry)
    if len(sums) > size:
        sums = _limit_kinds(sums)
    return tuple(sums.values())


def _add_count(sums: dict[tuple[str, str], FailureCount], more: FailureCount) -> None:
    key = more.step, more.kind
    entry = sums.get(key)
    sums[key] = more if entry is None else FailureCount(*key, entry.count + more.count, entry.handled + more.handled)


def _limit_kinds(counts: dict[tuple[str, str], FailureCount]) -> dict[tuple[str, str], FailureCount]:
    sums: dict[tuple[str, str], FailureCount] = {}
    kinds: dict[str, int] = {}
    for (step, kind), entry in sorted(counts.items()):
        if kind != OTHER:
            kinds[step] = kinds.get(step, 0) + 1
        is_counted_separately = kind == OTHER or kinds[step] <= MAX_KINDS
        _add_count(sums, entry if is_counted_separately else msgspec.structs.replace(entry, kind=OTHER))
    return dict(sorted(sums.items()))


def _as_handled(failures: tuple[Failure, ...]) -> tuple[Failure, ...]:
    return tuple(msgspec.structs.replace(failure, handled=True) for failure in failures)


def format_counts(counts: Iterable[FailureCount]) -> str:
    """Return the number of failures by kind, the most frequent first: ``999,998 http, 2 timeout``."""
    sums: dict[str, int] = {}
    for entry in counts:
        sums[entry.kind] = sums.get(entry.kind, 0) + entry.count
    totals = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {kind or 'of no kind'}" for kind, count in totals)
