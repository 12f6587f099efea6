"""Loops over several steps: each has one end, each end has one loop, and no route crosses the border of the body."""

from __future__ import annotations

from collections.abc import Mapping

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related, did_you_mean_or_list
from noetl_compiler.regions import MAX_REPEATED_STEPS, Crossing, Regions, regions_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import Name, Playbook, Step
from noetl_compiler.syntax_queries import entry_name_of, final_name_of

__all__ = ["forbid_broken_regions"]


def forbid_broken_regions(playbook: Playbook, report: Report) -> None:
    """Report NT207, NT208 and NT209; NT004 for loops that are nested too deeply."""
    if not playbook.steps:
        return
    steps = {step.name.text: step for step in playbook.steps}
    end_steps: dict[str, Step] = {}
    for step in playbook.steps:
        if step.ended_loop is not None:
            _check_end(step, step.ended_loop, steps, end_steps, report)
    regions = regions_of(playbook, entry_name_of(playbook), final_name_of(playbook))
    if regions.loop_over_limit is not None:
        message = (
            f"loops repeat more than {MAX_REPEATED_STEPS:,} steps, where each counts once per loop that contains it"
        )
        report.error(Code.BUDGET_EXCEEDED, steps[regions.loop_over_limit].name.span, message, "split the playbook")
        return
    for step in playbook.steps:
        if step.loop is not None and not step.tasks and not step.sinks:
            _check_loop(step, end_steps, regions, report)
    for crossing in regions.crossings:
        _report_crossing(crossing, regions, report)


def _check_end(step: Step, name: Name, steps: Mapping[str, Step], end_steps: dict[str, Step], report: Report) -> None:
    loop, earlier_end = steps.get(name.text), end_steps.get(name.text)
    if loop is None:
        message, hint = f'unknown step "{name.text}"', did_you_mean_or_list(name.text, steps, "steps are")
    elif loop.loop is None:
        message, hint = f'step "{name.text}" is not a loop, so it has no end', ""
    elif loop.tasks:
        message, hint = f'the loop "{name.text}" repeats its own task, so no other step can end it', "remove end_loop"
    elif earlier_end is not None:
        message, hint = (
            f'the loop "{name.text}" already ends at step "{earlier_end.name.text}"',
            "route both to the same end",
        )
    else:
        end_steps[name.text] = step
        return
    related = (Related(loop.name.span, "the loop is here"),) if loop else ()
    report.error(Code.NO_SUCH_LOOP, name.span, message, hint, related)


def _check_loop(step: Step, end_steps: Mapping[str, Step], regions: Regions, report: Report) -> None:
    name, end = step.name, end_steps.get(step.name.text)
    if end is None:
        message = f'the loop "{name.text}" has nothing to repeat: it has no task, and no step ends it'
        report.error(
            Code.OPEN_REGION, name.span, message, f"give it a task, or add a last step with end_loop: {name.text}"
        )
    elif name.text not in regions.loops_reaching_end:
        related = (Related(end.name.span, "its end is here"),)
        message = f'the end "{end.name.text}" cannot be reached from its loop "{name.text}"'
        report.error(Code.OPEN_REGION, name.span, message, f"add next: {end.name.text} to its last step", related)


def _report_crossing(crossing: Crossing, regions: Regions, report: Report) -> None:
    end = regions.ends[crossing.loop].name
    if crossing.enters:
        message = f'the route to "{crossing.arc.target.text}" enters the loop "{crossing.loop}" past its start'
        hint = f'route to "{crossing.loop}"'
    else:
        route = f'the route to "{crossing.arc.target.text}" leaves the loop "{crossing.loop}"'
        message = f'{route} without passing its end "{end.text}"'
        hint = f'route to "{end.text}"'
    related = (Related(end.span, "the loop ends here"),)
    report.error(Code.REGION_BORDER, crossing.arc.target.span, message, hint, related)
