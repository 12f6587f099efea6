"""Policies and admission as v10 writes them: rules of ``when``, ``then`` and ``else``."""

from __future__ import annotations

from noetl_compiler.graph import AdmitRule, Circuit, Collect
from noetl_compiler.language.constructs.policies import ACTION, CIRCUIT, COLLECT_MAPPING, POLICY, RULE
from noetl_compiler.migration.context import MigrationContext, mapping
from noetl_compiler.migration.entries import Entries
from noetl_compiler.migration.extensions import AGAIN
from noetl_compiler.migration.source_lookup import NOWHERE, Region, scalar
from noetl_compiler.migration.values import emit_assigns, emit_condition
from noetl_compiler.nodes import MappingNode, SequenceNode
from noetl_compiler.syntax import Policy, Rule

__all__ = ["emit_admission", "emit_policy"]


def emit_policy(context: MigrationContext, task: Region, policy: Policy | None) -> MappingNode | None:
    """``spec.policy`` of a task. Only v10 continues after an error that no rule matches; others must state it."""
    if policy is None:
        return None
    unmatched = policy.unmatched or (None if context.playbook.dialect == "v10" else "fail")
    rules = SequenceNode(tuple(_rule(context, task, rule) for rule in policy.rules), NOWHERE)
    written = Entries(context, POLICY, task, policy.span)
    written.node("rules", rules)
    written.plain("on_unmatched", unmatched)
    if policy.circuit is not None:
        written.node("circuit", _circuit(context, task, policy.circuit), of=(policy.circuit.span,))
    return written.mapping()


def _circuit(context: MigrationContext, task: Region, circuit: Circuit) -> MappingNode:
    written = Entries(context, CIRCUIT, context.origins.region(circuit.span, task), circuit.span)
    written.value("failures", circuit.failures)
    written.duration("window", circuit.window)
    written.duration("probe", circuit.probe)
    return written.mapping()


def _rule(context: MigrationContext, task: Region, rule: Rule) -> MappingNode:
    body, region = rule.body, context.origins.region(rule.body.span, task)
    action = _action(context, region, rule)
    if body.when is None and body.on == "any":
        return mapping((scalar("else"), mapping((scalar("then", body.span), action))))
    written = Entries(context, RULE, region, body.span)
    written.plain("on_status", body.on, at=body.span)
    written.node("when", emit_condition(body.when), "while", "retry_when", "stop_when")
    written.node("then", action, at=body.span)
    return written.mapping()


def _action(context: MigrationContext, region: Region, rule: Rule) -> MappingNode:
    body = rule.body
    if body.do == "again":
        context.extend(AGAIN, body.span)
    written = Entries(context, ACTION, region, body.span)
    written.plain("do", body.do, at=body.span)
    written.node("to", scalar(rule.to.text, rule.to.span) if rule.to else None)
    written.value("attempts", body.attempts, "max_attempts", "max_iterations")
    written.duration("delay", body.delay, "initial_delay", "backoff_seconds", "interval")
    written.plain("backoff", body.backoff)
    written.plain("multiplier", body.multiplier, "backoff_multiplier")
    written.duration("max_delay", body.max_delay)
    written.plain("jitter", body.jitter)
    written.value("patch", body.patch, "next_call")
    written.value("rebind", body.rebind)
    written.plain("wait_for", body.wait_for)
    written.duration("timeout", body.timeout)
    written.node("collect", _collect(context, region, body.collect))
    written.value("result", body.result)
    written.value("message", body.message, "fail")
    written.node("set", emit_assigns(context, region, body.set), "set_ctx", "set_iter")
    return written.mapping(body.span)


def _collect(context: MigrationContext, region: Region, collect: Collect | None) -> MappingNode | None:
    if collect is None:
        return None
    written = Entries(context, COLLECT_MAPPING, region, region.span)
    written.plain("strategy", collect.strategy, at=NOWHERE)
    written.plain("path", collect.path, at=NOWHERE)
    written.plain("into", collect.into, at=NOWHERE)
    return written.mapping()


def emit_admission(step: Region, rules: tuple[AdmitRule, ...]) -> MappingNode | None:
    """``spec.policy.admit`` of a step."""
    if not rules:
        return None
    nodes = SequenceNode(tuple(_admit_rule(rule) for rule in rules), NOWHERE)
    return mapping((step.key("rules"), nodes))


def _admit_rule(rule: AdmitRule) -> MappingNode:
    verdict = mapping((scalar("then"), mapping((scalar("allow"), scalar(rule.allow)))))
    if rule.when is None:
        return mapping((scalar("else", rule.span), verdict))
    return mapping((scalar("when", rule.span), emit_condition(rule.when)), *verdict.entries)
