"""Forecast the cost of a run on Temporal: history events, bytes, calls, billable actions.

forecasting/counts.py estimates how often each step runs, cost_model.py what each part costs;
tests/shell/test_forecast.py compares both with real histories. Numbers are minima and maxima of a run without failures:
conditions may skip steps, and concurrent calls share workflow tasks.

Actions are those that Temporal Cloud bills: each start and continue-as-new of a workflow, each attempt of a call and
the heartbeat with its record, each timer, each upsert of search attributes. Long calls send more heartbeats.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl_compiler.forecasting.cost_model import Amount, CostModel
from noetl_compiler.forecasting.counts import Counts, Sizes, count
from noetl_compiler.forecasting.risks import risks
from noetl_compiler.graph import Graph, Json, Step

__all__ = ["Amount", "Forecast", "Sizes", "StepForecast", "forecast"]


class StepForecast(msgspec.Struct, frozen=True):
    """The cost of one step. ``items``: the total number of iterations, 0 without a loop.

    ``actions_with_retries``: with every retry that the rules allow. ``assumed``: what could not be known before the
    run.
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
    """The cost of a whole run of the playbook in ``file``.

    ``largest_history``: the number of events of the longest history of a workflow run.
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
    """Forecast a run with this request (merged over the workload) and the sizes given by the author."""
    author_sizes = sizes or Sizes()
    counts = count(graph, request or {}, author_sizes)
    least = CostModel(graph, counts.least, counts.in_flight, counts.rows, author_sizes)
    most = CostModel(graph, counts.most, counts.in_flight, counts.rows, author_sizes)
    steps = tuple(_forecast_step(step, counts, least, most) for step in graph.steps.values())
    outermost = [name for name, loops in counts.around.items() if not loops]
    playbook_workflow = most.playbook(outermost)
    total = sum((step.most for step in steps), most.run_without_steps(playbook_workflow.runs))
    return Forecast(
        graph.source.file,
        steps,
        least=sum((step.least for step in steps), least.run_without_steps(least.playbook(outermost).runs)),
        most=total,
        bytes=most.bytes_without_steps(playbook_workflow.runs) + sum(step.bytes for step in steps),
        actions_with_retries=total.actions + sum(step.actions_with_retries - step.most.actions for step in steps),
        largest_history=max([playbook_workflow.longest, *(step.largest_history for step in steps)]),
        warnings=tuple(risks(graph, counts, author_sizes, most, playbook_workflow)),
    )


def _forecast_step(step: Step, counts: Counts, least: CostModel, most: CostModel) -> StepForecast:
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
