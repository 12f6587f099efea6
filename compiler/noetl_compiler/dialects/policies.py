"""Read the policies of the v10 dialect: task rules and admission rules, in both spellings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import structs

from noetl_compiler import graph
from noetl_compiler.codes import Code
from noetl_compiler.dialects.collecting import read_collect
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
    "read_enter",
    "read_eval",
    "read_failure",
    "read_policy",
    "read_rules",
]


class _Case(NamedTuple):
    """A condition and what is done when it holds. ``on`` is the status that the rule is for, None for any."""

    when: Template | None
    then: MappingNode
    on: OnStatus | None
    span: Span


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
    rules = tuple(_read_rule(one, bare, policy.report) for node in nodes for one in _cases(node, policy.report, RULE))
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


def _read_rule(case: _Case, bare: str, report: Report) -> Rule:
    rule = _read_action(ConstructFields(case.then, report, ACTION), case.when, bare)
    return Rule(structs.replace(rule.body, on=case.on), rule.to) if case.on else rule


def _cases(node: Node, report: Report, construct: Construct) -> Iterator[_Case]:
    """Read ``{when, then}``, ``{then}``, ``{else: {do}}``, ``{else: {then: {do}}}`` or ``{else:, then: {do}}``. With
    both ``then`` and ``else``, they are two rules, one after the other.
    """
    if not isinstance(node, MappingNode):
        report.error(Code.WRONG_TYPE, node.span, f"a policy rule must be a mapping, not {kind_of(node)}")
        return
    fields = ConstructFields(node, report, construct)
    when, then, otherwise = fields.condition("when"), fields.mapping("then"), fields.mapping("else")
    on = fields.choice("on_status", ON_STATUS) if "on_status" in construct.by_name else None
    if "then" not in fields and ("when" in fields or "else" not in fields):
        example = "{do: continue}" if construct is RULE else "{allow: true}"
        fields.missing("then", f"write then: {example}")
    fields.close()
    if then is not None:
        yield _Case(when, then, on, node.span)
    if otherwise is not None:
        span = node.span if then is None else otherwise.span
        yield _Case(None, _otherwise(otherwise, report, construct), on, span)


def _otherwise(node: MappingNode, report: Report, construct: Construct) -> MappingNode:
    """Return what ``else`` says, with or without a ``then`` of its own."""
    if node.get("then") is None:
        return node
    fields = ConstructFields(node, report, OTHERWISE if construct is RULE else OTHERWISE_VERDICT)
    then = fields.mapping("then")
    fields.close()
    return then or node


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
    if node.get("else") is not None:
        alone = ConstructFields(node, report, EVAL_OTHERWISE)
        otherwise = alone.mapping("else")
        alone.close()
        return _read_action(ConstructFields(otherwise, report, EVAL_RULE), None, bare) if otherwise else None
    fields = ConstructFields(node, report, EVAL_RULE)
    when = expression(fields.node_of("expr"), report)
    return _read_action(fields, when, bare)


def read_assigns(fields: Fields, bare: str) -> tuple[Assign, ...]:
    """Read ``set`` (once ``set_vars``) and its first spellings ``set_ctx`` and ``set_iter``, in this order."""
    if fields.lacks(*keys.SET, "set_ctx", "set_iter"):
        return ()
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
    cases = (one for node in inner.items("rules") for one in _cases(node, fields.report, ADMISSION_RULE))
    rules = tuple(_admit_rule(one, fields.report) for one in cases)
    inner.close()
    return rules


def _admit_rule(case: _Case, report: Report) -> AdmitRule:
    allow = ConstructFields(case.then, report, VERDICT)
    verdict = allow.flag("allow")
    allow.close()
    return AdmitRule(bool(verdict), case.span, case.when)
