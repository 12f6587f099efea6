"""A task of the graph and a scope to a rendered tool call, ready for its activity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl_compiler import templates
from noetl_compiler.graph import Json, Policy, Rule, Sink, Span, Task, Timeout, Value
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
        self.rules = _rules(task.policy, scope)


def render_task(task: Task, scope: Mapping[str, Any], bound: dict[str, Json]) -> RenderedTask:
    """Render a task against a scope which already has its input bound."""
    return RenderedTask(task, scope, bound)


def _rules(policy: Policy | None, scope: Mapping[str, Any]) -> tuple[CallRule, ...] | None:
    if policy is None:
        return None
    return tuple(call_rule(index, rule, scope) for index, rule in enumerate(policy.rules))


def call_rule(index: int, rule: Rule, scope: Mapping[str, Any]) -> CallRule:
    """A rule with its numbers rendered."""
    attempts = _number(rule.attempts, scope, rule.span)
    return CallRule(
        index=index,
        do=rule.do,
        on=rule.on,
        when=rule.when.source if rule.when else None,
        attempts=int(attempts) if attempts is not None else None,
        backoff=rule.backoff,
        multiplier=rule.multiplier,
        delay=seconds_of(rule.delay, scope, "delay") or 0.0,
        max_delay=seconds_of(rule.max_delay, scope, "max_delay"),
        jitter=rule.jitter,
    )


def sink_calls(sinks: Iterable[Sink], level: str, key: str, scope: Mapping[str, Any]) -> tuple[SinkCall, ...]:
    """The sinks of one level; their configuration stays unrendered until there is a result."""
    return tuple(
        SinkCall(
            kind=sink.kind,
            config=sink.config,
            key=f"{key}/sink{index}",
            mode=sink.mode,
            auth=templates.render(sink.auth, scope) if sink.auth is not None else None,
            guard=sink.guard,
        )
        for index, sink in enumerate(sinks)
        if sink.level == level
    )


def scope_paths(rules: Iterable[CallRule], sinks: Iterable[SinkCall]) -> tuple[str, ...]:
    """The paths which rules and sinks name: what the activity must be given of the scope."""
    sources = {rule.when for rule in rules if rule.when is not None}
    for sink in sinks:
        sources.update(one.source for one in templates_in((sink.config, sink.guard)))
    return tuple(sorted({path for source in sources for path in templates.paths(source)}))


def seconds_of(value: Value | None, scope: Mapping[str, Any], what: str) -> float | None:
    """A duration in seconds; ``what`` names the field in the failure. None for no value."""
    found = templates.render(value, scope) if value is not None else None
    if value is None or found is None:
        return None
    return quantities.seconds(found, what, next(iter(value.templates.values()), None))


def _number(value: Value | None, scope: Mapping[str, Any], span: Span) -> float | None:
    found = None if value is None else templates.render(value, scope)
    return None if found is None else _float(found, span)


def _float(found: Json, span: Span | None) -> float:
    if not isinstance(found, bool) and (isinstance(found, int | float) or _is_number(str(found))):
        return float(found)
    raise templates.TemplateFailure(f"expected a number, found {found!r}", span)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
