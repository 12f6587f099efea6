"""Renders a task with a scope, for the call of its activity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl_compiler import templates
from noetl_compiler.graph import Json, Rule, Sink, Splice, Task, Value
from noetl_temporal.machine import quantities
from noetl_temporal.machine.call import SinkCall, sink_suffix

__all__ = ["RenderedTask", "delay_of", "limit_of", "seconds_of", "sink_calls"]


class RenderedTask:
    """The parts of a call that contain templates. Raises TemplateFailure."""

    __slots__ = ("auth", "config", "connect_timeout", "input", "read_timeout", "timeout")

    def __init__(
        self, task: Task, scope: Mapping[str, Any], input_: dict[str, Json], config: dict[str, Json] | None = None
    ) -> None:
        """Render the task. ``scope`` includes the names of ``input_``. ``config`` is the rendered configuration of a
        later page, None for a first page.
        """
        self.input = input_
        self.config = _rendered_config(task, scope) if config is None else config
        self.auth = templates.render(task.auth, scope) if task.auth is not None else None
        self.timeout = self.connect_timeout = self.read_timeout = None
        if task.timeout is not None:
            self.timeout = seconds_of(task.timeout.total, scope, "timeout")
            self.connect_timeout = seconds_of(task.timeout.connect, scope, "connect timeout")
            self.read_timeout = seconds_of(task.timeout.read, scope, "read timeout")


def _rendered_config(task: Task, scope: Mapping[str, Any]) -> dict[str, Json]:
    config: dict[str, Json] = templates.render(task.config, scope) or {}
    return _with_literals(config, task.splices, scope) if task.splices else config


def _with_literals(config: dict[str, Json], splices: Sequence[Splice], scope: Mapping[str, Any]) -> dict[str, Json]:
    """Return the config with each template replaced by the literal of its value, from the last in a field to the first.
    The literal is in brackets, so that adjacent operators apply to all of it, and keeps the line breaks of the
    template, so that line numbers do not change.
    """
    new_config = dict(config)
    for splice in reversed(splices):
        code, literal = new_config[splice.field], repr(templates.render(splice.value, scope))
        breaks = "\n" * code.count("\n", splice.start, splice.end)
        new_config[splice.field] = f"{code[: splice.start]}({literal}{breaks}){code[splice.end :]}"
    return new_config


def sink_calls(
    sinks: Sequence[tuple[int, Sink]], call_key: str, task_key: str, scope: Mapping[str, Any]
) -> tuple[SinkCall, ...]:
    """Return the calls of sinks; the activity renders their configuration when there is a result. ``sinks`` have their
    positions among the task's sinks, ``call_key`` is the key of the call, ``task_key`` that of the task in this step
    run.
    """
    return tuple(
        [
            SinkCall(
                kind=sink.kind,
                config=sink.config,
                key=call_key + sink_suffix(index),
                replace_key=task_key + sink_suffix(index),
                mode=sink.mode,
                auth=templates.render(sink.auth, scope) if sink.auth is not None else None,
                guard=sink.guard,
            )
            for index, sink in sinks
        ]
    )


def seconds_of(value: Value | None, scope: Mapping[str, Any], field: str) -> float | None:
    """Return the duration in seconds of a field; None if it has none. Raises TemplateFailure, which names ``field``."""
    number = templates.render(value, scope) if value is not None else None
    if value is None or number is None:
        return None
    return quantities.seconds(number, field, next(iter(value.templates.values()), None))


def delay_of(rule: Rule, scope: Mapping[str, Any]) -> float:
    """Return the delay of a rule before the next call, in seconds. Raises TemplateFailure."""
    number = templates.render(rule.delay, scope) if rule.delay is not None else None
    return 0.0 if number is None else quantities.seconds(number, "delay", rule.span)


def limit_of(rule: Rule, scope: Mapping[str, Any], default: int) -> int:
    """Return the number of calls or pages that a rule allows. Raises TemplateFailure."""
    if rule.attempts is None:
        return default
    return quantities.count(templates.render(rule.attempts, scope), "attempts", rule.span, minimum=1)
