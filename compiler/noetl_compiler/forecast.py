"""Forecast the cost of a run on Temporal: history events, bytes, calls, billable actions.

forecasting/counts.py estimates how often each step runs, cost_model.py what each part costs;
tests/shell/test_forecast.py compares both with real histories. The numbers are lower and upper bounds for a run without
failures: conditions may skip steps, and concurrent calls share workflow tasks.

Actions are those that Temporal Cloud bills: each start and continue-as-new of a workflow, each attempt of a call and
the heartbeat with its record, each timer, each upsert of search attributes. Long calls send more heartbeats.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl_compiler.forecasting.cost_model import Amount, CostModel
from noetl_compiler.forecasting.counts import Counts, Sizes, count_parts
from noetl_compiler.forecasting.limit_warnings import limit_warnings
from noetl_compiler.graph import Graph, Json, Step

__all__ = ["Amount", "Forecast", "Sizes", "StepForecast", "forecast"]


_ACTIONS_PER_RETRY = 2
"""The timer of the delay, and the attempt."""


class StepForecast(msgspec.Struct, frozen=True):
    """The cost of one step. ``items``: the total number of iterations, 0 without a loop.

    ``actions_with_retries``: with every retry that the rules allow. ``assumptions``: about what is unknown before
    the run.
    """

    step: str
    items: int
    lower: Amount
    upper: Amount
    bytes: int
    actions_with_retries: int
    largest_history: int = 0
    assumptions: tuple[str, ...] = ()


class Forecast(msgspec.Struct, frozen=True):
    """The cost of a whole run of the playbook in ``file``.

    ``largest_history``: the number of events of the longest history of a workflow run.
    """

    file: str
    steps: tuple[StepForecast, ...]
    lower: Amount
    upper: Amount
    bytes: int
    actions_with_retries: int
    largest_history: int
    warnings: tuple[str, ...]


def forecast(graph: Graph, request: Mapping[str, Json] | None = None, sizes: Sizes | None = None) -> Forecast:
    """Forecast a run with this request (merged over the workload) and the sizes given by the author."""
    author_sizes = sizes or Sizes()
    counts = count_parts(graph, request or {}, author_sizes)
    lower_model = CostModel(graph, counts.lower, counts.in_flight, counts.frame_limits, author_sizes)
    upper_model = CostModel(graph, counts.upper, counts.in_flight, counts.frame_limits, author_sizes)
    steps = tuple(_forecast_step(step, counts, lower_model, upper_model) for step in graph.steps.values())
    outermost = [name for name, loops in counts.enclosing_loops.items() if not loops]
    playbook_workflow = upper_model.playbook_workflow(outermost)
    total = sum((step.upper for step in steps), upper_model.cost_without_steps(playbook_workflow.runs))
    return Forecast(
        graph.source.file,
        steps,
        lower=sum(
            (step.lower for step in steps),
            lower_model.cost_without_steps(lower_model.playbook_workflow(outermost).runs),
        ),
        upper=total,
        bytes=upper_model.bytes_without_steps(playbook_workflow.runs) + sum(step.bytes for step in steps),
        actions_with_retries=total.actions + sum(step.actions_with_retries - step.upper.actions for step in steps),
        largest_history=max([playbook_workflow.longest_history, *(step.largest_history for step in steps)]),
        warnings=tuple(limit_warnings(graph, counts, author_sizes, upper_model, playbook_workflow)),
    )


def _forecast_step(step: Step, counts: Counts, lower_model: CostModel, upper_model: CostModel) -> StepForecast:
    work, amount = counts.upper[step.name], upper_model.step_cost(step)
    return StepForecast(
        step.name,
        work.items,
        lower_model.step_cost(step),
        amount,
        upper_model.step_bytes(step),
        amount.actions + _ACTIONS_PER_RETRY * (work.calls_with_retries - work.calls),
        upper_model.loop_workflow(step).longest_history if work.loops else 0,
        counts.assumptions[step.name],
    )
