"""What a run of a graph will cost on Temporal, foretold: events, bytes, calls, billable actions.

forecasting/counts.py tells how often each step runs, cost_model.py what each thing costs: both are held against real
histories by tests/shell/test_forecast.py. Every number is of a run in which nothing fails, at least and at most: a
condition may leave steps out, and what goes on at the same time shares workflow tasks.

Actions are Temporal Cloud's: each workflow and child started, continued as new, each attempt of a call and the
heartbeat that carries its record, each timer, each change of search attributes. A call that takes long has more
heartbeats.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl_compiler.forecasting.cost_model import Amount, Prices
from noetl_compiler.forecasting.counts import Counts, Sizes, count
from noetl_compiler.forecasting.risks import risks
from noetl_compiler.graph import Graph, Json, Step

__all__ = ["Amount", "Forecast", "Sizes", "StepForecast", "forecast"]


class StepForecast(msgspec.Struct, frozen=True):
    """One step's share; ``items`` of its loop in all, 0 without one. ``assumed`` says what is not known before a run.

    ``actions_with_retries``: if every attempt is made that rules allow.
    """

    step: str
    items: int
    least: Amount
    most: Amount
    bytes: int
    actions_with_retries: int
    largest_history: int = 0
    assumed: tuple[str, ...] = ()


class Forecast(msgspec.Struct, frozen=True):
    """The whole run of the playbook in ``file``, its own workflow included.

    ``largest_history``: the events of the longest of its workflow runs.
    """

    file: str
    steps: tuple[StepForecast, ...]
    least: Amount
    most: Amount
    bytes: int
    actions_with_retries: int
    largest_history: int
    warnings: tuple[str, ...]


def forecast(graph: Graph, request: Mapping[str, Json] | None = None, sizes: Sizes | None = None) -> Forecast:
    """The forecast for a request (merged over the workload) and what is known of sizes."""
    known = sizes or Sizes()
    counts = count(graph, request or {}, known)
    least = Prices(graph, counts.least, counts.in_flight, counts.rows, known)
    most = Prices(graph, counts.most, counts.in_flight, counts.rows, known)
    steps = tuple(_of_step(step, counts, least, most) for step in graph.steps.values())
    outermost = [name for name, loops in counts.around.items() if not loops]
    own = most.playbook(outermost)
    at_most = sum((one.most for one in steps), most.whole(own.runs))
    return Forecast(
        graph.source.file,
        steps,
        least=sum((one.least for one in steps), least.whole(least.playbook(outermost).runs)),
        most=at_most,
        bytes=most.whole_bytes(own.runs) + sum(one.bytes for one in steps),
        actions_with_retries=at_most.actions + sum(one.actions_with_retries - one.most.actions for one in steps),
        largest_history=max([own.longest, *(one.largest_history for one in steps)]),
        warnings=tuple(risks(graph, counts, known, most, own)),
    )


def _of_step(step: Step, counts: Counts, least: Prices, most: Prices) -> StepForecast:
    work, amount = counts.most[step.name], most.step(step)
    return StepForecast(
        step.name,
        work.items,
        least.step(step),
        amount,
        most.bytes(step),
        amount.actions + 2 * (work.calls_with_retries - work.calls),
        most.loop(step).longest if work.loops else 0,
        counts.assumed[step.name],
    )
