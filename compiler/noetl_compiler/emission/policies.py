"""Policies and admission as v10 writes them: rules of ``when``, ``then`` and ``else``."""

from __future__ import annotations

from noetl_compiler import graph
from noetl_compiler.emission.context import Draft, mapping
from noetl_compiler.emission.extensions import Extension
from noetl_compiler.emission.source_lookup import NOWHERE, Entry, Region, scalar
from noetl_compiler.emission.values import emit_assigns, emit_condition, emit_duration, emit_value
from noetl_compiler.graph import AdmitRule, Circuit, Collect, Json
from noetl_compiler.language import defaults
from noetl_compiler.nodes import MappingNode, Node, SequenceNode
from noetl_compiler.syntax import Policy, Rule

__all__ = ["emit_admission", "emit_policy"]


def emit_policy(draft: Draft, task: Region, policy: Policy | None) -> MappingNode | None:
    """``spec.policy`` of a task. Only v10 goes on after an error that no rule covers; others have to say so."""
    if policy is None:
        return None
    unmatched = policy.unmatched or (None if draft.playbook.dialect == "v10" else "fail")
    rules = SequenceNode(tuple(_rule(draft, task, rule) for rule in policy.rules), NOWHERE)
    return mapping(
        (task.key("rules"), rules),
        (task.key("on_unmatched"), scalar(unmatched) if unmatched else None),
        (task.key("circuit"), _circuit(draft, task, policy.circuit) if policy.circuit else None),
    )


def _circuit(draft: Draft, task: Region, circuit: Circuit) -> MappingNode:
    region = draft.origins.region(circuit.span, task)
    draft.extend(Extension.CIRCUIT, circuit.span)
    return mapping(
        (region.key("failures"), region.node(circuit.failures, "failures")),
        (region.key("window"), emit_duration(region, circuit.window, "window")),
        (region.key("probe"), emit_duration(region, circuit.probe, "probe")),
    )


def _rule(draft: Draft, task: Region, rule: Rule) -> MappingNode:
    body, region = rule.body, draft.origins.region(rule.body.span, task)
    action = _action(draft, region, rule)
    if body.when is None and body.on == "any":
        return mapping((scalar("else"), mapping((scalar("then", body.span), action))))
    return mapping(
        (scalar("on_status", body.span), _unless(body.on, "any")),
        (region.key("when", "while", "retry_when", "stop_when"), emit_condition(body.when)),
        (scalar("then", body.span), action),
    )


def _action(draft: Draft, region: Region, rule: Rule) -> MappingNode:
    body = rule.body
    draft.extend_where(
        body.span,
        {
            Extension.ON_STATUS: body.on != "any",
            Extension.AGAIN: body.do == "again",
            Extension.PATCH: body.patch,
            Extension.COLLECT: body.collect,
            Extension.REBIND: body.rebind,
            Extension.RESULT: body.result,
            Extension.MESSAGE: body.message,
            Extension.MAX_DELAY: body.max_delay,
            Extension.MULTIPLIER: body.multiplier != defaults.MULTIPLIER,
            Extension.JITTER: body.jitter,
        },
    )
    return mapping(
        (scalar("do", body.span), scalar(body.do)),
        (region.key("to"), scalar(rule.to.text, rule.to.span) if rule.to else None),
        *_pace(region, body),
        (region.key("patch", "next_call"), emit_value(region, body.patch, "patch", "next_call")),
        (region.key("rebind"), emit_value(region, body.rebind, "rebind")),
        (region.key("collect"), _collect(body.collect)),
        (region.key("result"), emit_value(region, body.result, "result")),
        (region.key("message", "fail"), emit_value(region, body.message, "message", "fail")),
        (region.key("set", "set_ctx", "set_iter"), emit_assigns(draft, region, body.set)),
        span=body.span,
    )


def _pace(region: Region, body: graph.Rule) -> tuple[Entry, ...]:
    """How often and how fast a call is made again."""
    calls = ("attempts", "max_attempts", "max_iterations")
    delay = ("delay", "initial_delay", "backoff_seconds", "interval")
    return mapping(
        (region.key(*calls), region.node(body.attempts, *calls) if body.attempts else None),
        (region.key(*delay), emit_duration(region, body.delay, *delay)),
        (region.key("backoff"), _unless(body.backoff, "none")),
        (region.key("multiplier", "backoff_multiplier"), _unless(body.multiplier, defaults.MULTIPLIER)),
        (region.key("max_delay"), emit_duration(region, body.max_delay, "max_delay")),
        (region.key("jitter"), _unless(body.jitter, False)),
    ).entries


def _unless(value: Json, default: Json) -> Node | None:
    return None if value == default else scalar(value)


def _collect(collect: Collect | None) -> MappingNode | None:
    if collect is None:
        return None
    return mapping(
        (scalar("strategy"), scalar(collect.strategy)),
        (scalar("path"), _unless(collect.path, "")),
        (scalar("into"), scalar(collect.into)),
    )


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
