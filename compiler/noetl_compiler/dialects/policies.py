"""Policies of the v10 dialect: task rules and admission rules, in both spellings."""

from __future__ import annotations

from msgspec import structs

from noetl_compiler import graph
from noetl_compiler.codes import Code
from noetl_compiler.dialects.collecting import read_collect
from noetl_compiler.dialects.fields import Fields, kind_of
from noetl_compiler.dialects.guards import read_guard
from noetl_compiler.dialects.values import amount, assigns, condition, expression, seconds
from noetl_compiler.graph import AdmitRule, Assign, Circuit, EnterRule, Template, Value
from noetl_compiler.language import defaults
from noetl_compiler.language.words import (
    ACTIONS,
    BACKOFFS,
    BRANCH_FAILURES,
    ON_STATUS,
    ROUTE_MODES,
    UNMATCHED,
    BranchFailure,
)
from noetl_compiler.nodes import MappingNode, Node, SequenceNode, value_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import Policy, Rule

__all__ = [
    "SETS",
    "read_admission",
    "read_assigns",
    "read_enter",
    "read_eval",
    "read_failure",
    "read_policy",
    "read_rules",
]

SETS = ("set", "set_vars", "set_ctx", "set_iter")
"""The keys below which names are set."""


def read_policy(fields: Fields, bare: str) -> Policy | None:
    """``spec.policy`` of a task; ``bare`` is the root of names that ``set`` gives without one."""
    inner = fields.fields("policy", "a policy")
    if inner is None:
        return None
    found = read_rules(inner, bare)
    _read_mode(inner)
    inner.ignore("before", "after", "finally", why="only rules are evaluated")
    inner.close()
    return found or Policy(inner.span)


def read_rules(policy: Fields, bare: str) -> Policy | None:
    """What a policy says to follow calls, None when nothing."""
    nodes = policy.items("rules")
    rules = tuple(rule for node in nodes if (rule := _read_rule(node, bare, policy.report)) is not None)
    unmatched, circuit = policy.choice("on_unmatched", UNMATCHED), _read_circuit(policy)
    return Policy(policy.span, rules, unmatched, circuit) if rules or unmatched or circuit else None


def read_failure(policy: Fields) -> BranchFailure | None:
    """``failure: {mode}``: what an unhandled failure means for the other branches."""
    inner = policy.fields("failure", "the failure policy")
    if inner is None:
        return None
    mode = inner.choice("mode", BRANCH_FAILURES)
    inner.close()
    return mode


def _read_mode(policy: Fields) -> None:
    """``inclusive`` was never given a meaning."""
    if policy.choice("mode", ROUTE_MODES) == "inclusive":
        policy.ignore("mode", why="the first rule that matches decides")


def _read_circuit(policy: Fields) -> Circuit | None:
    """``circuit: {failures, window, probe}``."""
    inner = policy.fields("circuit", "a circuit breaker")
    if inner is None:
        return None
    failures = amount(inner.node_of("failures"), policy.report)
    if "failures" not in inner:
        inner.missing("failures")
    window, probe = (seconds(inner.node_of(key), policy.report) for key in ("window", "probe"))
    inner.close()
    return Circuit(failures or Value(1), inner.span, window, probe)


def _read_rule(node: Node, bare: str, report: Report) -> Rule | None:
    """``{when, then}``, ``{then}``, ``{else: {do}}``, ``{else: {then: {do}}}`` or ``{else:, then: {do}}``."""
    found = _condition_and_action(node, report, "on_status")
    if found is None:
        return None
    when, then = found
    if then is None:
        report.error(Code.MISSING_FIELD, node.span, 'a policy rule needs "then"', "write then: {do: continue}")
        return None
    rule = _read_action(Fields(then, report, "a policy rule"), when, bare)
    on = Fields(node, report, "a policy rule").choice("on_status", ON_STATUS) if isinstance(node, MappingNode) else None
    return Rule(structs.replace(rule.body, on=on), rule.to) if on else rule


def _condition_and_action(
    node: Node, report: Report, *guards: str
) -> tuple[Template | None, MappingNode | None] | None:
    if not isinstance(node, MappingNode):
        report.error(Code.WRONG_TYPE, node.span, f"a policy rule must be a mapping, not {kind_of(node)}")
        return None
    fields = Fields(node, report, "a policy rule")
    when, then = condition(fields.node_of("when"), report), fields.mapping("then")
    otherwise = fields.mapping("else")
    fields.rest(guards)
    fields.close()
    if otherwise is not None:
        inner = otherwise.get("then")
        return None, inner if isinstance(inner, MappingNode) else otherwise
    return when, then


def _read_action(fields: Fields, when: Template | None, bare: str) -> Rule:
    report = fields.report
    action = fields.choice("do", ACTIONS)
    if "do" not in fields:
        fields.missing("do")
    to = fields.name("to", "target")
    if action == "jump" and to is None:
        fields.missing("to")
    retries = action == "retry"
    delay = seconds(fields.node_of("delay"), report)
    patch, rebind = fields.mapping("patch"), fields.mapping("rebind")
    result, message = fields.node_of("result"), fields.node_of("message")
    rule = graph.Rule(
        action or "fail",
        fields.span,
        when=when,
        attempts=amount(fields.node_of("attempts"), report) or (Value(defaults.ATTEMPTS) if retries else None),
        backoff=fields.choice("backoff", BACKOFFS) or "none",
        multiplier=fields.number("multiplier") or defaults.MULTIPLIER,
        delay=delay or (Value(defaults.DELAY) if retries else None),
        max_delay=seconds(fields.node_of("max_delay"), report),
        jitter=fields.flag("jitter") or False,
        set=read_assigns(fields, bare),
        patch=value_of(patch) if patch else None,
        rebind=value_of(rebind) if rebind else None,
        collect=read_collect(fields),
        result=value_of(result) if result else None,
        message=value_of(message) if message else None,
    )
    fields.close()
    return Rule(rule, to)


def read_eval(fields: Fields, bare: str) -> Policy | None:
    """``eval`` of a tool, before policies had rules: ``[{expr, do, ...}, {else: {do, ...}}]``."""
    nodes = fields.items("eval")
    if not nodes:
        return None
    rules = tuple(rule for node in nodes if (rule := _read_eval_rule(node, bare, fields.report)) is not None)
    return Policy(nodes[0].span, rules)


def _read_eval_rule(node: Node, bare: str, report: Report) -> Rule | None:
    if not isinstance(node, MappingNode):
        report.error(Code.WRONG_TYPE, node.span, f"an eval rule must be a mapping, not {kind_of(node)}")
        return None
    otherwise = node.get("else")
    fields = Fields(otherwise if isinstance(otherwise, MappingNode) else node, report, "an eval rule")
    if otherwise is not None:
        return _read_action(fields, None, bare)
    when = expression(fields.node_of("expr", "when"), report)
    return _read_action(fields, when, bare)


def read_assigns(fields: Fields, bare: str) -> tuple[Assign, ...]:
    """``set`` (once ``set_vars``) and its first spellings ``set_ctx`` and ``set_iter``, in this order."""
    found = (
        *((node, bare) for node in _in_turn(fields, "set", "set_vars")),
        (fields.mapping("set_ctx"), "ctx"),
        (fields.mapping("set_iter"), "iter"),
    )
    return tuple(one for node, root in found for one in assigns(node, root, fields.report))


def _in_turn(fields: Fields, *keys: str) -> tuple[MappingNode | None, ...]:
    """One mapping, or a list of them where a name is set twice."""
    found = fields.node_of(*keys)
    if isinstance(found, SequenceNode) and all(isinstance(item, MappingNode) for item in found.items):
        return tuple(item for item in found.items if isinstance(item, MappingNode))
    return (fields.mapping(*keys),)


def read_enter(fields: Fields) -> tuple[EnterRule, ...]:
    """``enter`` of a step's spec: what is set before its loop or its first task."""
    found = (
        Fields(node, fields.report, "what a step sets on entering")
        for node in fields.items("enter")
        if isinstance(node, MappingNode)
    )
    return tuple(_enter_rule(one) for one in found)


def _enter_rule(fields: Fields) -> EnterRule:
    rule = EnterRule(read_assigns(fields, "ctx"), fields.span, read_guard(fields))
    fields.close()
    return rule


def read_admission(fields: Fields) -> tuple[AdmitRule, ...]:
    """``spec.policy.admit`` of a step."""
    inner = fields.fields("admit", "an admission policy")
    if inner is None:
        return ()
    _read_mode(inner)
    rules = tuple(rule for node in inner.items("rules") if (rule := _admit_rule(node, fields.report)) is not None)
    inner.close()
    return rules


def _admit_rule(node: Node, report: Report) -> AdmitRule | None:
    found = _condition_and_action(node, report)
    if found is None:
        return None
    when, then = found
    allow = Fields(then or MappingNode((), node.span), report, "an admission rule")
    verdict = allow.flag("allow")
    if verdict is None and "allow" not in allow:
        allow.missing("allow")
    allow.close()
    return AdmitRule(bool(verdict), node.span, when)
