"""Whether what a run says of itself is true: its status, its failures, the counts of its loops, its sinks."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dev.simulate.stops import is_handled, is_stopped
from dev.simulate.story import Finding, Story, Tale
from dev.simulate.tasks import RAISING
from noetl_compiler.graph import Rule, Task
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.commands import CallTool, Command, Emit, Finish, RunLoop
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.events import CancelRequested, LoopFinished, ToolFinished

__all__ = ["check_truth"]

TASK_ENDS = {"task.done": "ok", "task.failed": "error", "task.cancelled": "cancelled"}


def check_truth(story: Story) -> None:
    """Raises Finding."""
    finish = story.main.finish
    if finish is None:
        raise Finding("a run has no end", "its last command is no Finish")
    _status(story, finish)
    _steps(story, finish)
    _calls(story)
    _lost(story)
    _breaks(story)
    _raising(story)
    for tale in story.tales.values():
        if tale.name and tale.report is not None:
            _counts(tale)
            _results(tale)
    _sinks(story)


def _status(story: Story, finish: Finish) -> None:
    unhandled = [one for one in finish.failures if not one.handled]
    stopped = is_stopped(story)
    if (finish.status == "completed") != (not unhandled and not stopped):
        raise Finding("the status does not follow", f"{finish.status}, unhandled {unhandled[:2]}, stopped {stopped}")
    cancels = any(isinstance(turn.fact, CancelRequested) for turn in story.main.turns)
    if finish.status == "cancelled" and not cancels:
        raise Finding("the status does not follow", "cancelled, and nobody asked for it")
    last = story.main.events[-1]
    if not last.type.startswith("playbook.") or last.status != finish.status.upper():
        raise Finding("the last row tells another status", f"{last.type} {last.status} of {finish.status}")


# ---- steps ----------------------------------------------------------------------------------------------------------


def _steps(story: Story, finish: Finish) -> None:
    """A run of a step that failed, or was stopped by nobody's wish, is handled or fails the run."""
    ends: dict[str, DomainEvent] = {}
    for event in story.main.events:
        if event.type in ("step.done", "step.failed", "step.cancelled"):
            run = str(event.meta.get("step_run_id"))
            if run in ends:
                raise Finding("a run of a step ends twice", f"{run}: {ends[run].type}, {event.type}")
            ends[run] = event
    for run, event in ends.items():
        if event.type == "step.failed" and not is_handled(story.main, run):
            if finish.status == "completed":
                raise Finding("a failure is forgiven", f"{run} failed, no arc led on, the run is completed")
            if not _told(finish, event.node, run):
                raise Finding("a failure is not told", f"{run}: {event.error}")
        if event.type == "step.cancelled" and finish.status == "completed":
            raise Finding("a failure is forgiven", f"{run} was cancelled, the run is completed")
    _reached(story, ends, finish)


def _told(finish: Finish, step: str, run: str) -> bool:
    """A failure of this run, or where failures do not tell their run of the step."""
    return any(one.step == step and one.run == run and not one.handled for one in finish.failures)


def _reached(story: Story, ends: dict[str, DomainEvent], finish: Finish) -> None:
    """What its calls and loops came to is what a run of a step came to."""
    for run, why in _doomed(story).items():
        event = ends.get(run)
        if event is not None and event.type == "step.done":
            raise Finding("a failure is forgiven", f"{run} is done, though {why}")
        if event is not None and finish.status == "completed" and not is_handled(story.main, run):
            raise Finding("a failure is forgiven", f"the run is completed, though {run}: {why}")


def _doomed(story: Story) -> dict[str, str]:
    """Runs of steps that cannot end well, by what the world did to them."""
    found: dict[str, str] = {}
    runs = _runs_of_calls(story.main)
    asked = [one for turn in story.main.turns for one in turn.commands if isinstance(one, RunLoop)]
    loops = {one.loop_id: one.input for one in asked}
    for turn in story.main.turns:
        fact: Any = turn.fact
        if isinstance(fact, ToolFinished) and fact.call_id in runs:
            call, run = runs[fact.call_id]
            if (
                not fact.cancelled
                and fact.report.outcome["status"] == "error"
                and call.rules is None
                and not call.aside
            ):
                found[run] = f"{fact.call_id} failed without a policy"
        elif isinstance(fact, LoopFinished) and fact.loop_id in loops:
            run, loop = loops[fact.loop_id].run, loops[fact.loop_id].step.loop
            if fact.report.status == "cancelled":
                found[run] = "its loop was cancelled"
            elif fact.report.stats.get("failed") and loop is not None and loop.failure != "best_effort":
                found[run] = "items of its loop failed"
    return found


def _runs_of_calls(tale: Tale) -> dict[str, tuple[Any, str]]:
    """call id -> (call, run of a step)."""
    runs = {event.id: str(event.meta.get("step_run_id")) for event in tale.events if event.type == "task.started"}
    calls = [one.call for turn in tale.turns for one in turn.commands if isinstance(one, CallTool)]
    return {call.id: (call, runs.get(call.event_id, "")) for call in calls}


# ---- calls ----------------------------------------------------------------------------------------------------------


def _calls(story: Story) -> None:
    """A call ends in the log as it really ended."""
    for tale in story.tales.values():
        calls = {one.call.id: one.call for turn in tale.turns for one in turn.commands if isinstance(one, CallTool)}
        for turn in tale.turns:
            fact: Any = turn.fact
            if isinstance(fact, ToolFinished) and _ends_its_task(story, calls[fact.call_id]):
                ended = [one.event for one in turn.commands if isinstance(one, Emit) and one.event.type in TASK_ENDS]
                _told_as_ended(fact, [TASK_ENDS[one.type] for one in ended])


def _ends_its_task(story: Story, call: Any) -> bool:
    """A task whose sinks come after its calls has not ended with one of them."""
    task = _task_of(story, call)
    return call.store is None and all(sink.level == "attempt" for sink in task.sinks)


def _task_of(story: Story, call: ToolCall) -> Task:
    return next(one for one in story.graph.steps[call.step].tasks if one.label == call.task)


def _told_as_ended(fact: ToolFinished, told: list[str]) -> None:
    if fact.cancelled and "cancelled" not in told:
        raise Finding("a call's end is not told", f"{fact.call_id} was cancelled, the log has {told}")
    if not fact.cancelled and told == ["cancelled"]:
        raise Finding("a call's end is not told", f"{fact.call_id} ended by itself, the log has {told}")


def _lost(story: Story) -> None:
    """A call that nobody finished is made again as the rules say: not before their delay is over."""
    for tale in story.tales.values():
        calls = {one.call.id: one.call for turn in tale.turns for one in turn.commands if isinstance(one, CallTool)}
        for number, turn in enumerate(tale.turns):
            fact: Any = turn.fact
            if not isinstance(fact, ToolFinished) or fact.report.is_decided or fact.cancelled:
                continue
            call = calls[fact.call_id]
            seconds = _delay_of(_task_of(story, call), turn.commands)
            if seconds > 0 and _called_again(turn.commands, call):
                raise Finding("a delay is dropped", f"of {seconds} s after {call.id} was lost, in turn {number}")


def _delay_of(task: Task, commands: list[Command]) -> float:
    """Seconds that a rule for which the machine decided gives as a plain number, else 0."""
    decided = [one.event.meta for one in commands if isinstance(one, Emit) and one.event.meta.get("do") == "retry"]
    if not decided or task.policy is None:
        return 0.0
    rules: tuple[Rule, ...] = task.policy.rules
    delay = rules[int(decided[0]["rule"])].delay
    return float(delay.data) if delay is not None and isinstance(delay.data, int | float) else 0.0


def _called_again(commands: list[Any], call: Any) -> bool:
    return any(
        isinstance(one, CallTool) and (one.call.task, one.call.iteration) == (call.task, call.iteration)
        for one in commands
    )


def _raising(story: Story) -> None:
    """A way on whose condition raises is an error of its step, never no match."""
    done: set[Any] = set()
    for event in story.main.events:
        run, step = event.meta.get("step_run_id"), story.graph.steps.get(event.node)
        if event.type == "step.done":
            done.add(run)
        if event.type != "next.evaluated" or step is None or not step.route.arcs:
            continue
        first = step.route.arcs[0]
        asked = first.on == "any" or (first.on == "ok" and run in done)
        if asked and first.when is not None and first.when.source == RAISING:
            raise Finding("a condition that raises reads as no match", event.node)


def _breaks(story: Story) -> None:
    """After a rule's break no further task of the pipeline begins."""
    for tale in story.tales.values():
        broken: set[Any] = set()
        pipelines: dict[str, Any] = {}
        for turn in tale.turns:
            fact: Any = turn.fact
            if isinstance(fact, ToolFinished) and not fact.cancelled and _does_break(pipelines[fact.call_id][1], fact):
                broken.add(pipelines[fact.call_id][0])
            for one in turn.commands:
                if isinstance(one, CallTool):
                    pipeline = one.call.id.rsplit(":", 3 if one.call.store is not None else 2)[0]
                    pipelines[one.call.id] = (pipeline, one.call)
                    if pipeline in broken and one.call.store is None and not one.call.aside:
                        raise Finding("a task begins after a break", one.call.id)


def _does_break(call: Any, fact: ToolFinished) -> bool:
    rules = {rule.index: rule.do for rule in call.rules or ()}
    return fact.report.rule is not None and rules.get(fact.report.rule) == "break"


def _counts(tale: Tale) -> None:
    """total = success + failed + skipped, and a success is an item that ended ok."""
    report, items = tale.report, len(tale.given.items)
    stats = report.stats
    if stats["total"] != items or len(report.results) != items:
        raise Finding("counts of a loop are wrong", f"{stats} and {len(report.results)} results of {items} items")
    if stats["total"] != stats["success"] + stats["failed"] + stats["skipped"]:
        raise Finding("counts of a loop are wrong", f"{stats} do not add up")
    ends = Counter(event.type for event in tale.events)
    if stats["success"] != ends["loop.iteration.done"] or stats["failed"] != ends["loop.iteration.failed"]:
        done, failed = ends["loop.iteration.done"], ends["loop.iteration.failed"]
        raise Finding("counts of a loop are wrong", f"{stats}, in the log {done} done and {failed} failed")


def _results(tale: Tale) -> None:
    """Each item that ended well has its own result at its own index."""
    first = tale.given.first
    for event in tale.events:
        is_whole = not (isinstance(event.result, dict) and "_truncated" in event.result)
        if event.type == "loop.iteration.done" and is_whole:
            found = tale.report.results[event.meta["iteration"] - first]
            if found != event.result:
                raise Finding("a result is not its item's", f"{event.meta['iteration']}: {found} for {event.result}")


def _sinks(story: Story) -> None:
    """Every call has the sinks of its task, and no two calls have one key."""
    keys: Counter[str] = Counter()
    for tale in story.tales.values():
        for turn in tale.turns:
            for command in turn.commands:
                if isinstance(command, CallTool):
                    _sinks_of(story, command.call)
                    keys[command.call.key + ("/store" if command.call.store else "")] += 1
    twice = [key for key, count in keys.items() if count > 1]
    if twice:
        raise Finding("two calls have one key", twice[0])


def _sinks_of(story: Story, call: Any) -> None:
    task = _task_of(story, call)
    level = "attempt" if call.store is None else "task"
    wanted = [sink for sink in task.sinks if sink.level == level]
    if len(call.sinks) != len(wanted):
        raise Finding("a call has other sinks than its task", f"{call.id}: {len(call.sinks)} of {len(wanted)}")
