"""Rules, loops, sinks and values of a graph in a few words."""

from __future__ import annotations

import json

from noetl_compiler.graph import Collect, Guard, Json, Loop, Rule, Sink, Template, Value

__all__ = ["condition", "guard_in_words", "loop_in_words", "rule_in_words", "shown", "sink_in_words"]

_LONGEST = 120
_OUTCOME = {"any": "", "ok": " on success", "error": " on error"}


def shown(value: Value | Json) -> str:
    """A value on one line; a lone template without its braces."""
    data = value.data if isinstance(value, Value) else value
    text = data if isinstance(data, str) else json.dumps(data)
    return _short(_bare(" ".join(text.split())))


def condition(when: Template | None) -> str:
    """``when status == 'error'``, or nothing."""
    return f"when {shown(when.source)}" if when else ""


def rule_in_words(rule: Rule) -> str:
    """``retry on error: up to 3 calls, 0.5 s doubling, at most 60 s, when error.status in [500, 503]``."""
    details = [
        f"up to {shown(rule.attempts)} calls" if rule.attempts else "",
        *_delay(rule),
        f"with {', '.join(_leaves(rule.patch.data, ''))} changed" if rule.patch else "",
        f"called with {', '.join(_leaves(rule.rebind.data, ''))}" if rule.rebind else "",
        _collect(rule.collect) if rule.collect else "",
        f"result {shown(rule.result)}" if rule.result else "",
        f"because {shown(rule.message)}" if rule.message else "",
        f"set {', '.join(assign.target for assign in rule.set)}" if rule.set else "",
    ]
    said = ", ".join(detail for detail in details if detail)
    action = f"jump to {rule.to}" if rule.do == "jump" else "leave the step" if rule.do == "break" else rule.do
    when = f"{', ' if said else ' '}{condition(rule.when)}" if rule.when else ""
    return f"{action}{_OUTCOME[rule.on]}{': ' if said else ''}{said}{when}"


def _delay(rule: Rule) -> list[str]:
    if rule.delay is None:
        return []
    growth = {
        "none": " apart",
        "linear": " more each time",
        "exponential": " doubling" if rule.multiplier == 2 else f" times {rule.multiplier:g}",
    }[rule.backoff]
    limit = [f"at most {_seconds(rule.max_delay)}"] if rule.max_delay and rule.backoff != "none" else []
    return [f"{_seconds(rule.delay)}{growth}", *limit, *(["with jitter"] if rule.jitter else [])]


def _seconds(value: Value) -> str:
    return f"{value.data:g} s" if isinstance(value.data, int | float) else f"{shown(value)} s"


def _collect(collect: Collect) -> str:
    what = collect.path or "the result"
    verb = "keep the last of" if collect.strategy == "replace" else collect.strategy
    return f"{verb} {what} into {collect.into}"


def _leaves(data: Json, path: str) -> list[str]:
    """The dotted keys of what a patch changes."""
    if data.__class__ is not dict or not data:
        return [path or "the call"]
    return [leaf for key in data for leaf in _leaves(data[key], f"{path}.{key}" if path else key)]


def loop_in_words(loop: Loop) -> str:
    """``for each endpoint in workload.endpoints: parallel, up to 2 at once``."""
    source = shown(loop.collection) if loop.collection else "rows claimed from " + _kind(loop)
    details = [
        loop.mode,
        f"up to {shown(loop.max_in_flight)} at once" if loop.max_in_flight else "",
        f"{shown(loop.chunk_size)} items an iteration" if loop.chunk_size else "",
        f"only where {shown(loop.where.source)}" if loop.where else "",
        f"ordered by {shown(loop.order_by.source)}" if loop.order_by else "",
        f"the first {shown(loop.limit)}" if loop.limit else "",
        "stop at the first failure" if loop.on_error == "fail_fast" else "",
        "failed iterations do not fail the step" if loop.failure == "best_effort" else "",
        f"through the steps {', '.join(loop.region)}" if loop.region else "",
    ]
    return f"for each {loop.element} in {source}: {', '.join(detail for detail in details if detail)}"


def _kind(loop: Loop) -> str:
    return loop.cursor.kind if loop.cursor else "nothing"


def sink_in_words(sink: Sink) -> str:
    """``insert into postgres table etl_page, after every call``."""
    config: dict[str, Json] = sink.config.data
    table = config.get("table")
    where = f"{sink.kind} table {shown(table)}" if table else sink.kind
    often = "after every call" if sink.level == "attempt" else "once, at the end"
    only = guard_in_words(sink.guard) if sink.guard else ""
    return f"{sink.mode} into {where}, {often}{only and f', {only}'}"


def guard_in_words(guard: Guard) -> str:
    """``after an error, when error.kind == 'timeout', unless error.retryable``."""
    after = {"ok": "", "error": "after an error", "any": "whatever came of the call"}[guard.on]
    unless = " or ".join(shown(one.source) for one in guard.unless)
    return ", ".join(part for part in (after, condition(guard.when), unless and f"unless {unless}") if part)


def _bare(text: str) -> str:
    inside = text[2:-2]
    lone = text.startswith("{{") and text.endswith("}}") and "{{" not in inside
    return inside.strip() if lone else text


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
