"""One-line descriptions of the rules, loops, sinks and values of a graph."""

from __future__ import annotations

import json
from collections.abc import Sequence

from noetl_compiler.conditions import Condition, Moment, read_condition, strip_braces
from noetl_compiler.graph import (
    Assign,
    Circuit,
    Collect,
    Frame,
    Guard,
    Json,
    Loop,
    Rule,
    Sink,
    Template,
    Timeout,
    Value,
)
from noetl_compiler.language import defaults
from noetl_compiler.language.names import PASSED_ROOT
from noetl_compiler.language.sinks import TOOL_KINDS
from noetl_compiler.language.words import OnStatus
from noetl_compiler.value_merge import mapping_of

__all__ = [
    "assign_in_words",
    "circuit_in_words",
    "condition_in_words",
    "duration_in_words",
    "guard_in_words",
    "loop_in_words",
    "rule_in_words",
    "sets_in_words",
    "sink_in_words",
    "timeout_in_words",
    "truncate",
    "value_text",
    "when_in_words",
]

_MAX_CHARS = 160
_OUTCOME = {"any": "", "ok": " on success", "error": " on error"}
_ACTIONS = {"again": "call again", "break": "leave the step"}


def value_text(value: Value | Json) -> str:
    """Return a value on one line; a single template without its braces."""
    data = value.data if isinstance(value, Value) else value
    return truncate(strip_braces(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)), _MAX_CHARS)


def truncate(text: str, max_chars: int) -> str:
    """Truncate to at most ``max_chars`` characters, the last an ellipsis."""
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def when_in_words(when: Template | None) -> str:
    """Return text such as ``when status == 'error'``; "" without a condition."""
    return f"when {strip_braces(when.source)}" if when else ""


def condition_in_words(condition: Condition) -> str:
    """Return a condition without its test of the outcome: ``on 429/5xx when attempt < 3``."""
    cause, remainder = (
        condition.cause and f"on {condition.cause}",
        condition.remainder and f"when {condition.remainder}",
    )
    return f"{cause} {remainder}".strip()


def rule_in_words(rule: Rule) -> str:
    """Return text such as ``retry: up to 3 calls, 0.5 s doubling, at most 60 s, on 429/5xx``."""
    condition = read_condition(rule.when, rule.on_status)
    details = [
        _calls(rule),
        *_delay(rule),
        _signal(rule),
        f"with {', '.join(_leaves(rule.patch.data, ''))} changed" if rule.patch else "",
        f"called with {', '.join(_leaves(rule.rebind.data, ''))}" if rule.rebind else "",
        _collect(rule.collect) if rule.collect else "",
        f"result = {value_text(rule.result)}" if rule.result else "",
        f"because {value_text(rule.message)}" if rule.message else "",
        *sets_in_words(rule.set),
    ]
    detail_text = ", ".join(detail for detail in details if detail)
    action = f"jump to {rule.to}" if rule.do == "jump" else _ACTIONS.get(rule.do, rule.do)
    outcome = "" if condition.cause or rule.do == "again" else _OUTCOME[condition.on_status]
    when = (
        condition_in_words(condition).replace("when ", "while ", 1)
        if rule.do == "again"
        else condition_in_words(condition)
    )
    return f"{action}{outcome}{': ' if detail_text else ''}{detail_text}{when and (', ' if detail_text else ' ')}{when}"


def sets_in_words(assigns: Sequence[Assign]) -> list[str]:
    """Return text such as ``set a, b`` for the names that a route sets, and ``pass c`` for the arguments that it
    passes.
    """
    names = [assign.target for assign in assigns if not assign.target.startswith(PASSED_ROOT)]
    passed_names = [
        name for assign in assigns if assign.target.startswith(PASSED_ROOT) for name in mapping_of(assign.value)
    ]
    return [
        f"{verb} {', '.join(assigned_names)}"
        for verb, assigned_names in (("set", names), ("pass", passed_names))
        if assigned_names
    ]


_ADDITIONS = {
    "[]": "add {} to the list {}",
    "[*]": "add each of {} to the list {}",
    "[+]": "add {} to {}",
    "[|]": "merge {} into {}",
}


def assign_in_words(assign: Assign) -> str:
    """Return text such as ``set ctx.a = 1``, ``add 1 to ctx.a``."""
    for mark, words in _ADDITIONS.items():
        if assign.target.endswith(mark):
            return words.format(value_text(assign.value), assign.target.removesuffix(mark))
    return f"set {assign.target} = {value_text(assign.value)}"


def circuit_in_words(circuit: Circuit) -> str:
    """Return text such as ``after 5 failures within 60 s calls fail immediately, probed after 30 s``."""
    window = f" within {duration_in_words(circuit.window)}" if circuit.window else ""
    probe = f", probed after {duration_in_words(circuit.probe)}" if circuit.probe else ""
    return f"after {value_text(circuit.failures)} failures{window} calls fail immediately{probe}"


def timeout_in_words(timeout: Timeout) -> str:
    """Return text such as ``at most 30 s a call, 5 s to connect``; "" without limits."""
    parts = [
        f"{duration_in_words(value)} {scope}"
        for value, scope in ((timeout.total, "a call"), (timeout.connect, "to connect"), (timeout.read, "to read"))
        if value is not None
    ]
    return f"at most {', '.join(parts)}" if parts else ""


def _calls(rule: Rule) -> str:
    if rule.do not in ("retry", "again"):
        return ""
    number = (
        value_text(rule.attempts) if rule.attempts else str(defaults.ATTEMPTS if rule.do == "retry" else defaults.PAGES)
    )
    if rule.do == "retry" and number.isdecimal():
        number = str(min(int(number), defaults.MAX_ATTEMPTS))
    return f"up to {number} call{'s' * (number != '1')}"


def _signal(rule: Rule) -> str:
    if rule.wait_for is None:
        return ""
    return f"each after the signal {rule.wait_for}" + (
        f" within {duration_in_words(rule.timeout)}" if rule.timeout else ""
    )


def _delay(rule: Rule) -> list[str]:
    if rule.delay is None:
        return []
    growth = {
        "none": " apart",
        "linear": " more each time",
        "exponential": " doubling" if rule.multiplier == defaults.MULTIPLIER else f" times {rule.multiplier:g}",
    }[rule.backoff]
    limit = [f"at most {duration_in_words(rule.max_delay)}"] if rule.max_delay and rule.backoff != "none" else []
    return [f"{duration_in_words(rule.delay)}{growth}", *limit, *(["with jitter"] if rule.jitter else [])]


def duration_in_words(value: Value) -> str:
    """Return text such as ``30 s``, ``2 hours`` or ``7 days``."""
    if not isinstance(value.data, int | float):
        return f"{value_text(value)} s"
    for unit, length in (("day", 86_400), ("hour", 3_600)):
        if value.data and value.data % length == 0:
            count = int(value.data // length)
            return f"{count} {unit}{'s' * (count != 1)}"
    return f"{value.data:g} s"


def _collect(collect: Collect) -> str:
    source = collect.path or "the result"
    verb = "keep the last of" if collect.strategy == "replace" else collect.strategy
    return f"{verb} {source} into {collect.into}"


def _leaves(data: Json, path: str) -> list[str]:
    """Return the dotted paths of the leaves of a patch."""
    if data.__class__ is not dict or not data:
        return [path or "the call"]
    return [leaf for key in data for leaf in _leaves(data[key], f"{path}.{key}" if path else key)]


def loop_in_words(loop: Loop) -> str:
    """Return text such as ``for each endpoint in workload.endpoints: parallel, up to 2 at once``."""
    source = value_text(loop.collection) if loop.collection else "rows claimed from " + _kind(loop)
    details = [
        loop.mode,
        f"up to {value_text(loop.max_in_flight)} at once" if loop.max_in_flight else "",
        f"{value_text(loop.chunk_size)} items an iteration" if loop.chunk_size else "",
        f"only where {value_text(loop.where.source)}" if loop.where else "",
        f"ordered by {value_text(loop.order_by.source)}" if loop.order_by else "",
        f"the first {value_text(loop.limit)}" if loop.limit else "",
        "stop at the first failure" if loop.on_error == "fail_fast" else "",
        "failed iterations do not fail the step" if loop.failure == "best_effort" else "",
        _frame_in_words(loop.frame) if loop.frame else "",
        f"over {len(loop.region)} step{'s' * (len(loop.region) != 1)}" if loop.region and loop.end else "",
    ]
    return f"for each {loop.element} in {source}: {', '.join(detail for detail in details if detail)}"


def _frame_in_words(frame: Frame) -> str:
    """Return text such as ``framed: 1000 items an activity, 16 at once, for at most 60 s``."""
    parts = [
        f"framed: {value_text(frame.max_rows)} items an activity" if frame.max_rows else "framed",
        f"{value_text(frame.row_concurrency)} at once" if frame.row_concurrency else "",
        f"begun within {duration_in_words(frame.max_seconds)}" if frame.max_seconds else "",
        f"until their results have {value_text(frame.max_bytes)} bytes" if frame.max_bytes else "",
    ]
    return ", ".join(filter(None, parts))


def _kind(loop: Loop) -> str:
    return loop.cursor.kind if loop.cursor else "nothing"


def sink_in_words(sink: Sink) -> str:
    """Return text such as ``insert into postgres table etl_page, after every call``; ``send to http https://..., after
    every call``.
    """
    frequency = "after every call" if sink.level == "attempt" else "once, at the end"
    guard_text = guard_in_words(sink.guard) if sink.guard else ""
    return f"{_destination(sink)}, {frequency}{guard_text and f', {guard_text}'}"


def _destination(sink: Sink) -> str:
    config = mapping_of(sink.config)
    if sink.kind in TOOL_KINDS:
        return f"send to {value_text(config['url'])}" if "url" in config else f"give to {sink.kind} code"
    table = config.get("table")
    return f"{sink.mode} into {sink.kind}{f' table {value_text(table)}' if table else ''}"


def guard_in_words(guard: Guard, moment: Moment = "call") -> str:
    """Return text such as ``on error, on 429/5xx, unless error.code == 'quota'``; "" for a guard that matches every
    success.
    """
    condition = read_condition(guard.when, guard.on_status, moment)
    outcome = {"ok": "", "error": "" if condition.cause else "on error", "any": "on success or error"}[
        condition.on_status
    ]
    exceptions = " or ".join(_exception(unless, guard.on_status) for unless in guard.unless)
    return ", ".join(
        part for part in (outcome, condition_in_words(condition), exceptions and f"unless {exceptions}") if part
    )


def _exception(unless: Template, on_status: OnStatus) -> str:
    condition = read_condition(unless, on_status)
    return condition_in_words(condition).removeprefix("when ") or value_text(unless.source)
