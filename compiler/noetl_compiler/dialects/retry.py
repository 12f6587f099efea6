"""Convert legacy ``retry`` in all its forms to policy rules.

    retry: true | 5                                    retries any error; at most 3 calls, or this number
    retry: {max_attempts, initial_delay, ...,          the same, with conditions to retry and to stop
            retry_when, stop_when}
    retry: {max_attempts, when: [...],                 the form of NoETL's whitepaper: all conditions must hold
            backoff: {type, base_seconds, ...}}
    retry: {on_error: {when, max_attempts, ...},       errors, and repetition after success
            on_success: {while, next_call, collect}}   (pagination, polling)
    retry: [{when, then: {...}}, ...]                  the first rule that matches applies; one whose condition reads
                                                       the error retries, any other repeats after success

A retry becomes a policy rule with ``retry``, a repetition after success one with ``again``. An error that no rule
matches fails the task, unlike in v10, whose default is to continue.
"""

from __future__ import annotations

from functools import reduce
from typing import Literal

import msgspec
from msgspec.structs import replace

from noetl_compiler import graph
from noetl_compiler.codes import Code
from noetl_compiler.dialects.collect import read_collect
from noetl_compiler.dialects.fields import Fields, kind_of
from noetl_compiler.dialects.retry_limit import with_limit
from noetl_compiler.dialects.sinks import read_sinks
from noetl_compiler.dialects.values import combine_conditions, condition, count, forbid_negative, seconds
from noetl_compiler.graph import Sink, Span, Template, Value
from noetl_compiler.language import defaults
from noetl_compiler.language.names import ERROR_NAMES
from noetl_compiler.language.words import BACKOFFS, Backoff
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, to_json, value_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import Policy, Rule
from noetl_compiler.templating.analysis import analyse_template

__all__ = ["RetryRules", "read_retry", "warn_of_unbounded_pages"]

_INITIAL_DELAY, _MAX_DELAY = Value(defaults.DELAY), Value(defaults.RETRY_MAX_DELAY)


class RetryRules(msgspec.Struct, frozen=True):
    """The policy of a ``retry``. ``page_sinks`` store each page that a repetition after success fetches
    (``per_iteration``).
    """

    policy: Policy
    page_sinks: tuple[Sink, ...] = ()


def read_retry(fields: Fields, report: Report) -> RetryRules | None:
    """Read the ``retry`` of a task or step; None if it is absent or disabled."""
    node = fields.node_of("retry")
    if node is None:
        return None
    if isinstance(node, SequenceNode):
        branches = [_read_entry(item, report) for item in node.items]
    elif isinstance(node, MappingNode):
        branches = _read_mapping(node, report)
    else:
        branches = _read_shorthand(node, report)
    rules = tuple(rule for branch in branches for rule in branch.rules)
    page_sinks = tuple(sink for branch in branches for sink in branch.page_sinks)
    return RetryRules(Policy(node.span, rules, "fail", retry_clause=to_json(node)), page_sinks) if rules else None


class _RetryBranch(msgspec.Struct, frozen=True):
    """The policy rules and page sinks of a part of a ``retry``: ``on_error``, ``on_success`` or an entry of a list."""

    rules: tuple[Rule, ...]
    page_sinks: tuple[Sink, ...] = ()


def _read_shorthand(node: ScalarNode, report: Report) -> list[_RetryBranch]:
    """Read ``retry: true`` or a number of calls."""
    if isinstance(node.value, bool):
        calls = defaults.ATTEMPTS if node.value else 0
    elif isinstance(node.value, int):
        forbid_negative(node, report)
        calls = node.value
    else:
        report.error(Code.WRONG_TYPE, node.span, f'"retry" must be a mapping, not {kind_of(node)}')
        return []
    rule = _retry_rule(node.span, Value(calls), _DelaySettings())
    return [_RetryBranch((Rule(rule),))] if calls > 0 else []


def _read_mapping(node: MappingNode, report: Report) -> list[_RetryBranch]:
    fields = Fields(_with_flat_backoff(node), report, "a retry")
    branches: list[_RetryBranch] = []
    if (errors := fields.mapping("on_error")) is not None:
        branches.append(_read_retry_rules(Fields(_with_flat_backoff(errors), report, "on_error"), on_status="error"))
    if (success := fields.mapping("on_success")) is not None:
        branches.append(_read_repeat_rule(Fields(success, report, "on_success")))
    if branches:
        fields.check_keys()
        return branches
    return [_read_retry_rules(fields)]


def _read_entry(node: Node, report: Report) -> _RetryBranch:
    """Read ``{when, then: {...}}``."""
    if not isinstance(node, MappingNode):
        report.error(Code.WRONG_TYPE, node.span, f"a retry rule must be a mapping, not {kind_of(node)}")
        return _RetryBranch(())
    rule_fields = Fields(node, report, "a retry rule")
    when, then = condition(rule_fields.node_of("when"), report), rule_fields.mapping("then")
    rule_fields.check_keys()
    then_fields = Fields(_with_flat_backoff(then or MappingNode((), node.span)), report, "a retry rule")
    paginates = "next_call" in then_fields or "collect" in then_fields
    if _is_about_error(when) and not paginates:
        return _read_retry_rules(then_fields, when)
    return _read_repeat_rule(then_fields, when, defaults.PAGES if paginates else defaults.ATTEMPTS)


def _is_about_error(when: Template | None) -> bool:
    return when is None or not analyse_template(when.source).root_names.isdisjoint(ERROR_NAMES)


def _read_retry_rules(
    fields: Fields, when: Template | None = None, on_status: Literal["any", "error"] | None = None
) -> _RetryBranch:
    """Return the rules that stop retrying, then the rule that retries.

    A flat ``retry_when`` that does not read the error may also repeat a successful call.
    """
    report = fields.report
    stop_when = condition(fields.node_of("stop_when"), report)
    when = when or _read_condition(fields)
    fields.ignore("retry_on", reason='write retry_when: "{{ error.kind in [...] }}"')
    attempts = count(fields.node_of("max_attempts", "attempts"), report) or Value(defaults.ATTEMPTS)
    delays = _read_delay_settings(fields)
    fields.check_keys()
    status, when = on_status or _status_of_rule(when), with_limit(when, attempts)
    rule = Rule(_retry_rule(fields.span, attempts, delays, on_status=status, when=when))
    return _RetryBranch((*_stop_rules(with_limit(stop_when, attempts), fields.span), rule))


def _status_of_rule(when: Template | None) -> Literal["any", "error"]:
    return "error" if _is_about_error(when) else "any"


def _read_condition(fields: Fields) -> Template | None:
    """Read ``when``, one condition or a list of conditions that must all hold, or ``retry_on_status``."""
    node = fields.node_of("when", "retry_when")
    nodes = node.items if isinstance(node, SequenceNode) else (node,)
    when = reduce(combine_conditions, (condition(node, fields.report) for node in nodes), None)
    on_status = _read_status_condition(fields)
    return when or on_status


class _DelaySettings(msgspec.Struct, frozen=True):
    """How the delay before each retry is computed."""

    delay: Value = _INITIAL_DELAY
    backoff: Backoff = "exponential"
    multiplier: float = defaults.MULTIPLIER
    max_delay: Value = _MAX_DELAY
    jitter: bool = False


def _read_delay_settings(fields: Fields) -> _DelaySettings:
    report = fields.report
    delay = fields.node_of("initial_delay", "delay", "backoff_seconds", "base_seconds")
    return _DelaySettings(
        seconds(delay, report) or _INITIAL_DELAY,
        fields.choice("backoff", BACKOFFS) or "exponential",
        fields.number("backoff_multiplier", "multiplier", "factor") or defaults.MULTIPLIER,
        seconds(fields.node_of("max_delay", "max_seconds"), report) or _MAX_DELAY,
        fields.flag("jitter") or False,
    )


def _with_flat_backoff(node: MappingNode) -> MappingNode:
    """Merge ``backoff: {type, base_seconds, max_seconds}`` into the retry. A number instead is the delay."""
    backoff = node.get("backoff")
    if isinstance(backoff, ScalarNode) and isinstance(backoff.value, int | float):
        return MappingNode(
            tuple(
                (replace(key, text="backoff_seconds") if item is backoff else key, item) for key, item in node.entries
            ),
            node.span,
        )
    if not isinstance(backoff, MappingNode):
        return node
    other_entries = tuple(entry for entry in node.entries if entry[1] is not backoff)
    backoff_entries = tuple(
        (replace(key, text="backoff") if key.text == "type" else key, item) for key, item in backoff.entries
    )
    return MappingNode((*other_entries, *backoff_entries), node.span)


def _read_status_condition(fields: Fields) -> Template | None:
    """Read ``retry_on_status: [429, 503]``."""
    nodes = fields.items("retry_on_status")
    if not nodes:
        return None
    values_text = ", ".join(str(node.value) for node in nodes if isinstance(node, ScalarNode))
    return Template(f"{{{{ error.status in [{values_text}] }}}}", nodes[0].span)


def _stop_rules(when: Template | None, span: Span) -> tuple[Rule, ...]:
    """Return the rules of ``stop_when``, which keep the outcome of the call, a success or a failure."""
    if when is None:
        return ()
    return (
        Rule(graph.Rule("fail", span, on_status="error", when=when)),
        Rule(graph.Rule("continue", span, on_status="ok", when=when)),
    )


def _retry_rule(
    span: Span,
    attempts: Value,
    delays: _DelaySettings,
    *,
    on_status: Literal["any", "error"] = "error",
    when: Template | None = None,
) -> graph.Rule:
    return graph.Rule(
        "retry",
        span,
        on_status=on_status,
        when=when,
        attempts=attempts,
        backoff=delays.backoff,
        multiplier=delays.multiplier,
        delay=delays.delay,
        max_delay=delays.max_delay,
        jitter=delays.jitter,
    )


def _read_repeat_rule(fields: Fields, when: Template | None = None, calls: int = defaults.PAGES) -> _RetryBranch:
    """Return a rule that repeats the call after success while ``while`` is true."""
    report = fields.report
    when = when or condition(fields.node_of("while", "when"), report)
    if when is None:
        fields.report_missing("while")
    patch = fields.mapping("next_call")
    max_calls = count(fields.node_of("max_attempts", "max_iterations"), report)
    if max_calls is None and calls == defaults.PAGES:
        warn_of_unbounded_pages(fields.span, "max_attempts", report)
    rule = graph.Rule(
        "again",
        fields.span,
        on_status="ok",
        when=when,
        attempts=max_calls or Value(calls),
        delay=seconds(fields.node_of("initial_delay", "delay", "interval"), report),
        patch=value_of(patch) if patch else None,
        collect=read_collect(fields),
    )
    fields.ignore("backoff_multiplier", reason="the delay between pages is constant")
    page_sinks = _read_page_sinks(fields)
    fields.check_keys()
    return _RetryBranch((Rule(rule),), page_sinks)


def warn_of_unbounded_pages(span: Span, key: str, report: Report) -> None:
    """Report NT405 for calls whose number is limited only by the default."""
    message = f"no limit on the number of calls: pages after {defaults.PAGES} are silently skipped"
    report.warning(Code.UNBOUNDED_PAGES, span, message, f"set {key}")


def _read_page_sinks(fields: Fields) -> tuple[Sink, ...]:
    sink_fields = fields.fields("per_iteration", "per_iteration")
    if sink_fields is None:
        return ()
    sinks = read_sinks(sink_fields, fields.report, "attempt")
    sink_fields.check_keys()
    return sinks
