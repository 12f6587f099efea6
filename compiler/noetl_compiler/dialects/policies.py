"""Read the policies of the v10 dialect: task rules and admission rules, in both spellings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import structs

from noetl_compiler import graph
from noetl_compiler.codes import Code
from noetl_compiler.dialects.collect import read_collect
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields, kind_of
from noetl_compiler.dialects.guards import read_guard
from noetl_compiler.dialects.values import assigns, expression
from noetl_compiler.dialects.waits import read_wait_for
from noetl_compiler.graph import AdmitRule, Assign, Circuit, EnterRule, Span, Template, Value
from noetl_compiler.language import defaults, keys
from noetl_compiler.language.construct import Construct
from noetl_compiler.language.constructs.admission import ADMISSION, ADMISSION_RULE, OTHERWISE_VERDICT, VERDICT
from noetl_compiler.language.constructs.policies import (
    ACTION,
    CIRCUIT,
    EVAL_OTHERWISE,
    EVAL_RULE,
    FAILURE_MODE,
    OTHERWISE,
    POLICY,
    RULE,
)
from noetl_compiler.language.constructs.steps import ENTER
from noetl_compiler.language.words import (
    ACTIONS,
    BACKOFFS,
    BRANCH_FAILURES,
    ON_STATUS,
    ROUTE_MODES,
    UNMATCHED,
    BranchFailure,
    OnStatus,
)
from noetl_compiler.nodes import MappingNode, Node, SequenceNode, value_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import Policy, Rule

__all__ = [
    "read_admission",
    "read_assigns",
    "read_branch_failure",
    "read_enter",
    "read_eval",
    "read_policy",
    "read_rules",
]


class _ConditionalAction(NamedTuple):
    """An action with its condition. ``on_status`` is the outcome to which the rule applies; None if not given."""

    when: Template | None
    then: MappingNode
    on_status: OnStatus | None
    span: Span


def read_policy(fields: Fields, default_root: str) -> Policy | None:
    """Read ``spec.policy`` of a task; ``default_root`` is the root of names in ``set`` that have none."""
    policy_fields = ConstructFields.nested(fields, "policy", POLICY)
    if policy_fields is None:
        return None
    policy = read_rules(policy_fields, default_root)
    _read_mode(policy_fields)
    policy_fields.check_keys()
    return policy or Policy(policy_fields.span)


def read_rules(policy: Fields, default_root: str) -> Policy | None:
    """Read the rules of a policy, None if it has none."""
    nodes = policy.items("rules")
    rules = tuple(
        _read_rule(conditional, default_root, policy.report)
        for node in nodes
        for conditional in _read_conditional_actions(node, policy.report, RULE)
    )
    unmatched, circuit = policy.choice("on_unmatched", UNMATCHED), _read_circuit(policy)
    return Policy(policy.span, rules, unmatched, circuit) if rules or unmatched or circuit else None


def read_branch_failure(policy: Fields) -> BranchFailure | None:
    """Read ``failure: {mode}``: how an unhandled failure affects the other branches."""
    failure = ConstructFields.nested(policy, "failure", FAILURE_MODE)
    if failure is None:
        return None
    mode = failure.choice("mode", BRANCH_FAILURES)
    failure.check_keys()
    return mode


def _read_mode(policy: Fields) -> None:
    """Read ``mode``, which has no effect: the specification never defined ``inclusive``."""
    if policy.choice("mode", ROUTE_MODES) == "inclusive":
        policy.ignore("mode", reason="the first rule that matches decides")


def _read_circuit(policy: Fields) -> Circuit | None:
    """Read ``circuit: {failures, window, probe}``."""
    circuit = ConstructFields.nested(policy, "circuit", CIRCUIT)
    if circuit is None:
        return None
    failures, window, probe = circuit.amount("failures"), circuit.seconds("window"), circuit.seconds("probe")
    circuit.check_keys()
    return Circuit(failures or Value(1), circuit.span, window, probe)


def _read_rule(conditional: _ConditionalAction, default_root: str, report: Report) -> Rule:
    rule = _read_action(ConstructFields(conditional.then, report, ACTION), conditional.when, default_root)
    return Rule(structs.replace(rule.body, on_status=conditional.on_status), rule.to) if conditional.on_status else rule


def _read_conditional_actions(node: Node, report: Report, construct: Construct) -> Iterator[_ConditionalAction]:
    """Read ``{when, then}``, ``{then}``, ``{else: {do}}``, ``{else: {then: {do}}}`` or ``{else:, then: {do}}``. With
    both ``then`` and ``else``, they are two rules, one after the other.
    """
    if not isinstance(node, MappingNode):
        report.error(Code.WRONG_TYPE, node.span, f"a policy rule must be a mapping, not {kind_of(node)}")
        return
    fields = ConstructFields(node, report, construct)
    when, then, else_node = fields.condition("when"), fields.mapping("then"), fields.mapping("else")
    on_status = fields.choice("on_status", ON_STATUS) if "on_status" in construct.by_name else None
    if "then" not in fields and ("when" in fields or "else" not in fields):
        example = "{do: continue}" if construct is RULE else "{allow: true}"
        fields.report_missing("then", hint=f"write then: {example}")
    fields.check_keys()
    if then is not None:
        yield _ConditionalAction(when, then, on_status, node.span)
    if else_node is not None:
        span = node.span if then is None else else_node.span
        yield _ConditionalAction(None, _else_action(else_node, report, construct), on_status, span)


def _else_action(node: MappingNode, report: Report, construct: Construct) -> MappingNode:
    """Return the action of ``else``, which may be below a ``then`` of its own."""
    if node.get("then") is None:
        return node
    fields = ConstructFields(node, report, OTHERWISE if construct is RULE else OTHERWISE_VERDICT)
    then = fields.mapping("then")
    fields.check_keys()
    return then or node


def _read_action(fields: ConstructFields, when: Template | None, default_root: str) -> Rule:
    action, to = fields.choice("do", ACTIONS), fields.name("to")
    if action == "jump" and to is None:
        fields.report_missing("to")
    is_retry = action == "retry"
    delay = fields.seconds("delay")
    patch, rebind = fields.mapping("patch"), fields.mapping("rebind")
    result, message = fields.node_of("result"), fields.node_of("message")
    signal, signal_timeout = read_wait_for(fields, is_retry=is_retry)
    rule = graph.Rule(
        action or "fail",
        fields.span,
        when=when,
        attempts=fields.count("attempts") or (Value(defaults.ATTEMPTS) if is_retry else None),
        backoff=fields.choice("backoff", BACKOFFS) or "none",
        multiplier=fields.number("multiplier") or defaults.MULTIPLIER,
        delay=delay or (Value(defaults.DELAY) if is_retry and signal is None else None),
        max_delay=fields.seconds("max_delay"),
        jitter=fields.flag("jitter") or False,
        set=read_assigns(fields, default_root),
        patch=value_of(patch) if patch else None,
        rebind=value_of(rebind) if rebind else None,
        collect=read_collect(fields),
        result=value_of(result) if result else None,
        message=value_of(message) if message else None,
        wait_for=signal,
        timeout=signal_timeout,
    )
    fields.check_keys()
    return Rule(rule, to)


def read_eval(fields: Fields, default_root: str) -> Policy | None:
    """Read ``eval`` of a tool, the predecessor of policy rules: ``[{expr, do, ...}, {else: {do, ...}}]``."""
    nodes = fields.items("eval")
    if not nodes:
        return None
    rules = tuple(rule for node in nodes if (rule := _read_eval_rule(node, default_root, fields.report)) is not None)
    return Policy(nodes[0].span, rules)


def _read_eval_rule(node: Node, default_root: str, report: Report) -> Rule | None:
    if not isinstance(node, MappingNode):
        report.error(Code.WRONG_TYPE, node.span, f"an eval rule must be a mapping, not {kind_of(node)}")
        return None
    if node.get("else") is not None:
        else_fields = ConstructFields(node, report, EVAL_OTHERWISE)
        else_node = else_fields.mapping("else")
        else_fields.check_keys()
        return _read_action(ConstructFields(else_node, report, EVAL_RULE), None, default_root) if else_node else None
    fields = ConstructFields(node, report, EVAL_RULE)
    when = expression(fields.node_of("expr"), report)
    return _read_action(fields, when, default_root)


def read_assigns(fields: Fields, default_root: str) -> tuple[Assign, ...]:
    """Read ``set`` or its older name ``set_vars``, then ``set_ctx`` and ``set_iter``, which are older still."""
    if fields.lacks(*keys.SET, "set_ctx", "set_iter"):
        return ()
    assigned_names = (
        *((node, default_root) for node in _set_mappings(fields, *keys.SET)),
        (fields.mapping("set_ctx"), "ctx"),
        (fields.mapping("set_iter"), "iter"),
    )
    return tuple(assign for node, root in assigned_names for assign in assigns(node, root, fields.report))


def _set_mappings(fields: Fields, *spellings: str) -> tuple[MappingNode | None, ...]:
    """Return the mappings in order: one, or several if a list sets a name twice."""
    node = fields.node_of(*spellings)
    if isinstance(node, SequenceNode) and all(isinstance(item, MappingNode) for item in node.items):
        return tuple(item for item in node.items if isinstance(item, MappingNode))
    return (fields.mapping(*spellings),)


def read_enter(fields: Fields) -> tuple[EnterRule, ...]:
    """Read ``enter`` of a step's spec: assignments before its loop or its first task."""
    rules = (
        ConstructFields(node, fields.report, ENTER) for node in fields.items("enter") if isinstance(node, MappingNode)
    )
    return tuple(_read_enter_rule(rule) for rule in rules)


def _read_enter_rule(fields: Fields) -> EnterRule:
    rule = EnterRule(read_assigns(fields, "ctx"), fields.span, read_guard(fields))
    fields.check_keys()
    return rule


def read_admission(fields: Fields) -> tuple[AdmitRule, ...]:
    """Read ``spec.policy.admit`` of a step."""
    admission = ConstructFields.nested(fields, "admit", ADMISSION)
    if admission is None:
        return ()
    _read_mode(admission)
    rules = tuple(
        _read_admit_rule(conditional, fields.report)
        for node in admission.items("rules")
        for conditional in _read_conditional_actions(node, fields.report, ADMISSION_RULE)
    )
    admission.check_keys()
    return rules


def _read_admit_rule(conditional: _ConditionalAction, report: Report) -> AdmitRule:
    allow = ConstructFields(conditional.then, report, VERDICT)
    verdict = allow.flag("allow")
    allow.check_keys()
    return AdmitRule(bool(verdict), conditional.span, conditional.when)
