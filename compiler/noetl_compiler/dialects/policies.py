"""Read the policies of the v10 dialect: task rules and admission rules, in both spellings."""

from __future__ import annotations

from msgspec import structs

from noetl_compiler import graph
from noetl_compiler.codes import Code
from noetl_compiler.dialects.collecting import read_collect
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields, kind_of
from noetl_compiler.dialects.guards import read_guard
from noetl_compiler.dialects.values import assigns, expression
from noetl_compiler.dialects.waits import read_wait_for
from noetl_compiler.graph import AdmitRule, Assign, Circuit, EnterRule, Template, Value
from noetl_compiler.language import defaults, keys
from noetl_compiler.language.construct import Construct
from noetl_compiler.language.constructs.admission import ADMISSION, ADMISSION_RULE, VERDICT
from noetl_compiler.language.constructs.policies import ACTION, CIRCUIT, EVAL_RULE, FAILURE_MODE, POLICY, RULE
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
    "read_enter",
    "read_eval",
    "read_failure",
    "read_policy",
    "read_rules",
]


def read_policy(fields: Fields, bare: str) -> Policy | None:
    """Read ``spec.policy`` of a task; ``bare`` is the root of names that ``set`` gives without a root."""
    inner = ConstructFields.below(fields, "policy", POLICY)
    if inner is None:
        return None
    found = read_rules(inner, bare)
    _read_mode(inner)
    inner.close()
    return found or Policy(inner.span)


def read_rules(policy: Fields, bare: str) -> Policy | None:
    """Read the rules of a policy, None if it has none."""
    nodes = policy.items("rules")
    rules = tuple(rule for node in nodes if (rule := _read_rule(node, bare, policy.report)) is not None)
    unmatched, circuit = policy.choice("on_unmatched", UNMATCHED), _read_circuit(policy)
    return Policy(policy.span, rules, unmatched, circuit) if rules or unmatched or circuit else None


def read_failure(policy: Fields) -> BranchFailure | None:
    """Read ``failure: {mode}``: how an unhandled failure affects the other branches."""
    inner = ConstructFields.below(policy, "failure", FAILURE_MODE)
    if inner is None:
        return None
    mode = inner.choice("mode", BRANCH_FAILURES)
    inner.close()
    return mode


def _read_mode(policy: Fields) -> None:
    """Read ``mode``, which has no effect: ``inclusive`` was never defined."""
    if policy.choice("mode", ROUTE_MODES) == "inclusive":
        policy.ignore("mode", why="the first rule that matches decides")


def _read_circuit(policy: Fields) -> Circuit | None:
    """Read ``circuit: {failures, window, probe}``."""
    inner = ConstructFields.below(policy, "circuit", CIRCUIT)
    if inner is None:
        return None
    failures, window, probe = inner.amount("failures"), inner.seconds("window"), inner.seconds("probe")
    inner.close()
    return Circuit(failures or Value(1), inner.span, window, probe)


def _read_rule(node: Node, bare: str, report: Report) -> Rule | None:
    """Read ``{when, then}``, ``{then}``, ``{else: {do}}``, ``{else: {then: {do}}}`` or ``{else:, then: {do}}``."""
    found = _condition_and_action(node, report, RULE)
    if found is None:
        return None
    when, then, on = found
    if then is None:
        report.error(Code.MISSING_FIELD, node.span, 'a policy rule needs "then"', "write then: {do: continue}")
        return None
    rule = _read_action(ConstructFields(then, report, ACTION), when, bare)
    return Rule(structs.replace(rule.body, on=on), rule.to) if on else rule


def _condition_and_action(
    node: Node, report: Report, construct: Construct
) -> tuple[Template | None, MappingNode | None, OnStatus | None] | None:
    """Read the condition of a rule, its action and the status that it applies to; admission rules have no status."""
    if not isinstance(node, MappingNode):
        report.error(Code.WRONG_TYPE, node.span, f"a policy rule must be a mapping, not {kind_of(node)}")
        return None
    fields = ConstructFields(node, report, construct)
    when, then, otherwise = fields.condition("when"), fields.mapping("then"), fields.mapping("else")
    on = fields.choice("on_status", ON_STATUS) if "on_status" in construct.by_name else None
    fields.close()
    if otherwise is not None:
        inner = otherwise.get("then")
        return None, inner if isinstance(inner, MappingNode) else otherwise, on
    return when, then, on


def _read_action(fields: ConstructFields, when: Template | None, bare: str) -> Rule:
    action, to = fields.choice("do", ACTIONS), fields.name("to")
    if action == "jump" and to is None:
        fields.missing("to")
    retries = action == "retry"
    delay = fields.seconds("delay")
    patch, rebind = fields.mapping("patch"), fields.mapping("rebind")
    result, message = fields.node_of("result"), fields.node_of("message")
    awaited, limit = read_wait_for(fields, retries=retries)
    rule = graph.Rule(
        action or "fail",
        fields.span,
        when=when,
        attempts=fields.amount("attempts") or (Value(defaults.ATTEMPTS) if retries else None),
        backoff=fields.choice("backoff", BACKOFFS) or "none",
        multiplier=fields.number("multiplier") or defaults.MULTIPLIER,
        delay=delay or (Value(defaults.DELAY) if retries and awaited is None else None),
        max_delay=fields.seconds("max_delay"),
        jitter=fields.flag("jitter") or False,
        set=read_assigns(fields, bare),
        patch=value_of(patch) if patch else None,
        rebind=value_of(rebind) if rebind else None,
        collect=read_collect(fields),
        result=value_of(result) if result else None,
        message=value_of(message) if message else None,
        wait_for=awaited,
        timeout=limit,
    )
    fields.close()
    return Rule(rule, to)


def read_eval(fields: Fields, bare: str) -> Policy | None:
    """Read ``eval`` of a tool, the predecessor of policy rules: ``[{expr, do, ...}, {else: {do, ...}}]``."""
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
    fields = ConstructFields(otherwise if isinstance(otherwise, MappingNode) else node, report, EVAL_RULE)
    if otherwise is not None:
        return _read_action(fields, None, bare)
    when = expression(fields.node_of("expr"), report)
    return _read_action(fields, when, bare)


def read_assigns(fields: Fields, bare: str) -> tuple[Assign, ...]:
    """Read ``set`` (once ``set_vars``) and its first spellings ``set_ctx`` and ``set_iter``, in this order."""
    found = (
        *((node, bare) for node in _in_turn(fields, *keys.SET)),
        (fields.mapping("set_ctx"), "ctx"),
        (fields.mapping("set_iter"), "iter"),
    )
    return tuple(one for node, root in found for one in assigns(node, root, fields.report))


def _in_turn(fields: Fields, *spellings: str) -> tuple[MappingNode | None, ...]:
    """Return the mappings in order: one, or several if a list sets a name twice."""
    found = fields.node_of(*spellings)
    if isinstance(found, SequenceNode) and all(isinstance(item, MappingNode) for item in found.items):
        return tuple(item for item in found.items if isinstance(item, MappingNode))
    return (fields.mapping(*spellings),)


def read_enter(fields: Fields) -> tuple[EnterRule, ...]:
    """Read ``enter`` of a step's spec: assignments before its loop or its first task."""
    found = (
        ConstructFields(node, fields.report, ENTER) for node in fields.items("enter") if isinstance(node, MappingNode)
    )
    return tuple(_enter_rule(one) for one in found)


def _enter_rule(fields: Fields) -> EnterRule:
    rule = EnterRule(read_assigns(fields, "ctx"), fields.span, read_guard(fields))
    fields.close()
    return rule


def read_admission(fields: Fields) -> tuple[AdmitRule, ...]:
    """Read ``spec.policy.admit`` of a step."""
    inner = ConstructFields.below(fields, "admit", ADMISSION)
    if inner is None:
        return ()
    _read_mode(inner)
    rules = tuple(rule for node in inner.items("rules") if (rule := _admit_rule(node, fields.report)) is not None)
    inner.close()
    return rules


def _admit_rule(node: Node, report: Report) -> AdmitRule | None:
    found = _condition_and_action(node, report, ADMISSION_RULE)
    if found is None:
        return None
    when, then, _ = found
    allow = ConstructFields(then or MappingNode((), node.span), report, VERDICT)
    verdict = allow.flag("allow")
    allow.close()
    return AdmitRule(bool(verdict), node.span, when)
