"""The open runs in the event log as metrics for Prometheus (``noetl mirror --health``).

They are counted for each request, so all mirrors of an event log return the same numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import asyncpg

from noetl_temporal.mirror import sql
from noetl_temporal.mirror.path_labels import PathLabels

__all__ = ["Gauges"]

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class _Gauge(NamedTuple):
    name: str
    help: str
    labels: tuple[str, ...]
    query: str
    """The name of the query, whose rows have the labels and ``count``."""


_GAUGES = (
    _Gauge("noetl_open_runs", "Runs that have not ended, by path and status", ("path", "status"), "open_runs_by_path"),
    _Gauge("noetl_held_steps", "Failed steps that wait for a person, by path", ("path",), "held_steps_by_path"),
    _Gauge("noetl_open_incidents", "Runs that no worker can continue, by path", ("path",), "open_incidents_by_path"),
    _Gauge("noetl_unread_histories", "Histories that the mirror cannot read", (), "unread_histories"),
)


class Gauges:
    """Gauges for the runs of a namespace."""

    def __init__(self, pool: asyncpg.Pool, namespace: str, paths: PathLabels | None = None) -> None:
        self._pool = pool
        self._namespace = namespace
        self._paths = paths or PathLabels()

    async def text(self) -> str:
        """Return all gauges now. Raises asyncpg's errors, OSError."""
        lines: list[str] = []
        for gauge in _GAUGES:
            records = await self._pool.fetch(sql.query(gauge.query), self._namespace)
            lines += [f"# HELP {gauge.name} {gauge.help}", f"# TYPE {gauge.name} gauge"]
            lines += (f"{gauge.name}{_labels(values)} {count}" for values, count in self._counts(gauge, records))
        return "".join(f"{line}\n" for line in lines)

    def _counts(self, gauge: _Gauge, records: Iterable[asyncpg.Record]) -> list[tuple[dict[str, str], int]]:
        counts: Counter[tuple[str, ...]] = Counter()
        for record in records:
            values = (self._paths.label(record[name]) if name == "path" else record[name] for name in gauge.labels)
            counts[tuple(values)] += record["count"]
        return [(dict(zip(gauge.labels, values, strict=True)), count) for values, count in counts.items()]


def _labels(values: Mapping[str, str]) -> str:
    labels = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in values.items())
    return f"{{{labels}}}" if labels else ""
