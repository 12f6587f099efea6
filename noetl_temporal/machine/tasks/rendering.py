"""A task of the graph and a scope to a rendered tool call, ready for its activity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl_compiler import templates
from noetl_compiler.graph import Json, Policy, Rule, Sink, Task, Timeout, Value
from noetl_compiler.graph.contents import templates_in
from noetl_temporal.machine import quantities
from noetl_temporal.machine.call import CallRule, SinkCall

__all__ = ["RenderedTask", "call_rule", "render_task", "scope_paths", "seconds_of", "sink_calls"]


class RenderedTask:
    """The parts of a call that templates decide. Raises TemplateFailure on the way."""

    __slots__ = ("auth", "config", "connect_timeout", "input", "read_timeout", "rules", "timeout")

    def __init__(self, task: Task, scope: Mapping[str, Any], bound: dict[str, Json]) -> None:
        self.input = bound
        self.config: dict[str, Json] = templates.render(task.config, scope) or {}
        self.auth = templates.render(task.auth, scope) if task.auth is not None else None
        limits = task.timeout or Timeout()
        self.timeout = seconds_of(limits.total, scope, "timeout")
        self.connect_timeout = seconds_of(limits.connect, scope, "connect timeout")
        self.read_timeout = seconds_of(limits.read, scope, "read timeout")
        self.rules = _rules(task.policy)


def render_task(task: Task, scope: Mapping[str, Any], bound: dict[str, Json]) -> RenderedTask:
    """Render a task against a scope which already has its input bound."""
    return RenderedTask(task, scope, bound)


def _rules(policy: Policy | None) -> tuple[CallRule, ...] | None:
    if policy is None:
        return None
    return tuple(call_rule(index, rule) for index, rule in enumerate(policy.rules))


def call_rule(index: int, rule: Rule) -> CallRule:
    """A rule as its call carries it; its numbers are rendered where it is decided."""
    return CallRule(
        index=index,
        do=rule.do,
        on=rule.on,
        when=rule.when.source if rule.when else None,
        attempts=rule.attempts,
        backoff=rule.backoff,
        multiplier=rule.multiplier,
        delay=rule.delay,
        max_delay=rule.max_delay,
        jitter=rule.jitter,
    )


def sink_calls(
    sinks: Iterable[Sink], level: str, key: str, once: str, scope: Mapping[str, Any]
) -> tuple[SinkCall, ...]:
    """The sinks of one level; their configuration stays unrendered until there is a result. ``once`` is the key of
    the task in this run of its step.
    """
    return tuple(
        SinkCall(
            kind=sink.kind,
            config=sink.config,
            key=f"{key}/sink{index}",
            once=f"{once}/sink{index}",
            mode=sink.mode,
            auth=templates.render(sink.auth, scope) if sink.auth is not None else None,
            guard=sink.guard,
        )
        for index, sink in enumerate(sinks)
        if sink.level == level
    )


def scope_paths(rules: Iterable[CallRule], sinks: Iterable[SinkCall]) -> tuple[str, ...]:
    """The paths which rules and sinks name: what the activity must be given of the scope."""
    sources: set[str] = set()
    for rule in rules:
        sources.update(() if rule.when is None else (rule.when,))
        numbers = (rule.attempts, rule.delay, rule.max_delay) if rule.do == "retry" else ()
        sources.update(one.source for one in templates_in(numbers))
    for sink in sinks:
        sources.update(one.source for one in templates_in((sink.config, sink.guard)))
    return tuple(sorted({path for source in sources for path in templates.paths(source)}))


def seconds_of(value: Value | None, scope: Mapping[str, Any], what: str) -> float | None:
    """A duration in seconds; ``what`` names the field in the failure. None for no value."""
    found = templates.render(value, scope) if value is not None else None
    if value is None or found is None:
        return None
    return quantities.seconds(found, what, next(iter(value.templates.values()), None))
