"""Policies and admission in v10: rules with ``when``, ``then`` and ``else``."""

from __future__ import annotations

from noetl_compiler.graph import AdmitRule, Circuit, Collect, Value
from noetl_compiler.language import defaults
from noetl_compiler.language.constructs.policies import ACTION, CIRCUIT, COLLECT_MAPPING, POLICY, RULE
from noetl_compiler.migration.context import MigrationContext, mapping
from noetl_compiler.migration.entries import Entries
from noetl_compiler.migration.extensions import AGAIN
from noetl_compiler.migration.source_lookup import NO_SPAN, SourceMapping, scalar
from noetl_compiler.migration.values import emit_assigns, emit_condition
from noetl_compiler.nodes import MappingNode, SequenceNode
from noetl_compiler.syntax import Policy, Rule

__all__ = ["emit_admission", "emit_policy"]


def emit_policy(context: MigrationContext, task: SourceMapping, policy: Policy | None) -> MappingNode | None:
    """Return ``spec.policy`` of a task. Only v10 continues after an unmatched error: ``fail`` is added for others."""
    if policy is None:
        return None
    unmatched = policy.unmatched or (None if context.playbook.dialect == "v10" else "fail")
    rules = SequenceNode(tuple(_rule(context, task, rule) for rule in policy.rules), NO_SPAN)
    entries = Entries(context, POLICY, task, policy.span)
    entries.add_node("rules", rules)
    entries.add_scalar("on_unmatched", unmatched)
    if policy.circuit is not None:
        entries.add_node("circuit", _circuit(context, task, policy.circuit), note_spans=(policy.circuit.span,))
    return entries.mapping()


def _circuit(context: MigrationContext, task: SourceMapping, circuit: Circuit) -> MappingNode:
    entries = Entries(context, CIRCUIT, context.source_lookup.mapping_at(circuit.span, task), circuit.span)
    entries.add_value("failures", circuit.failures)
    entries.add_duration("window", circuit.window)
    entries.add_duration("probe", circuit.probe)
    return entries.mapping()


_ATTEMPTS = ("attempts", "max_attempts", "max_iterations")


def _rule(context: MigrationContext, task: SourceMapping, rule: Rule) -> MappingNode:
    body, origin = rule.body, context.source_lookup.mapping_at(rule.body.span, task)
    action = _action(context, origin, rule)
    if body.when is None and body.on_status == "any":
        return mapping((scalar("else"), mapping((scalar("then", body.span), action))))
    entries = Entries(context, RULE, origin, body.span)
    entries.add_scalar("on_status", body.on_status, key_span=body.span)
    entries.add_node("when", emit_condition(body.when), "while", "retry_when", "stop_when")
    entries.add_node("then", action, key_span=body.span)
    return entries.mapping()


def _action(context: MigrationContext, origin: SourceMapping, rule: Rule) -> MappingNode:
    body = rule.body
    if body.do == "again":
        context.note_extension(AGAIN, body.span)
    entries = Entries(context, ACTION, origin, body.span)
    entries.add_scalar("do", body.do, key_span=body.span)
    entries.add_node("to", scalar(rule.to.text, rule.to.span) if rule.to else None)
    has_default_attempts = body.do == "retry" and body.attempts == Value(defaults.ATTEMPTS)
    if not has_default_attempts or origin.entry(*_ATTEMPTS):
        entries.add_value("attempts", body.attempts, *_ATTEMPTS[1:])
    entries.add_duration("delay", body.delay, "initial_delay", "backoff_seconds", "interval")
    entries.add_scalar("backoff", body.backoff)
    entries.add_scalar("multiplier", body.multiplier, "backoff_multiplier")
    entries.add_duration("max_delay", body.max_delay)
    entries.add_scalar("jitter", body.jitter)
    entries.add_value("patch", body.patch, "next_call")
    entries.add_value("rebind", body.rebind)
    entries.add_scalar("wait_for", body.wait_for)
    entries.add_duration("timeout", body.timeout)
    entries.add_node("collect", _collect(context, origin, body.collect))
    entries.add_value("result", body.result)
    entries.add_value("message", body.message, "fail")
    entries.add_node("set", emit_assigns(context, origin, body.set), "set_ctx", "set_iter")
    return entries.mapping(body.span)


def _collect(context: MigrationContext, origin: SourceMapping, collect: Collect | None) -> MappingNode | None:
    """Return ``collect`` with all its values, but without defaults that a v10 playbook omits."""
    if collect is None:
        return None
    entry = origin.entry("collect") if context.has_v10_form else None
    original = SourceMapping(entry[1]) if entry and isinstance(entry[1], MappingNode) else None
    entries, default = Entries(context, COLLECT_MAPPING, original or origin, origin.span), Collect()
    for name, value, default_value in (
        ("strategy", collect.strategy, default.strategy),
        ("path", collect.path, default.path),
        ("into", collect.into, default.into),
    ):
        is_left_out = original is not None and not original.entry(name) and value == default_value
        if not is_left_out:
            entries.add_scalar(name, value, key_span=None if original else NO_SPAN)
    return entries.mapping()


def emit_admission(step: SourceMapping, rules: tuple[AdmitRule, ...]) -> MappingNode | None:
    """Return ``spec.policy.admit`` of a step."""
    if not rules:
        return None
    nodes = SequenceNode(tuple(_admit_rule(rule) for rule in rules), NO_SPAN)
    return mapping((step.key("rules"), nodes))


def _admit_rule(rule: AdmitRule) -> MappingNode:
    verdict = mapping((scalar("then"), mapping((scalar("allow"), scalar(rule.allow)))))
    if rule.when is None:
        return mapping((scalar("else", rule.span), verdict))
    return mapping((scalar("when", rule.span), emit_condition(rule.when)), *verdict.entries)
