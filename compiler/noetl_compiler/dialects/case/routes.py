"""Combine the routes of ``case`` rules and ``next`` into one exclusive route.

The first rule that matches decides the route. Rules without targets lead to the step's own ``next``:

- inclusive ``case``: such a rule is part of the route only before an ``else``, which it prevents;
- exclusive ``case``: it is always part of the route. Rules about ``step.exit`` are evaluated after it, so the route
  also has a combination of it with each of them.

In a loop, the rules about a call are the routes of its items, which are followed when an item's call has ended
(dev/decisions/0067). The loop's own route has the rules about its end.
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.dialects.case.rules import CaseRule, CaseStep
from noetl_compiler.dialects.case.tasks import sets_on_arcs
from noetl_compiler.dialects.tasks import ParseContext
from noetl_compiler.dialects.values import combine_conditions
from noetl_compiler.graph import Template
from noetl_compiler.language.words import OnStatus
from noetl_compiler.syntax import Arc, Name, Next

__all__ = ["read_item_routes", "read_routes"]

Group = tuple[Arc, ...]


def read_routes(
    rules: tuple[CaseRule, ...], own_next: Next | None, step: Name, case_step: CaseStep, context: ParseContext
) -> Next | None:
    """Return the route of a step. ``own_next`` is its ``next``, which defaults to the final step."""
    next_groups: tuple[Group, ...] = own_next.groups if own_next else ()
    default_groups = next_groups or (
        () if step.text == context.final else ((Arc(Name(context.final, step.span), step.span),),)
    )
    enter_rules = [rule for rule in rules if rule.phase == "enter" and _has_targets(rule)]
    call_rules = [rule for rule in rules if rule.phase == "call"]
    end_rules = [rule for rule in rules if rule.phase == "end"]
    groups = [group for rule in enter_rules for group in _target_groups(rule, default_groups, case_step)]
    if case_step.element is None:
        groups += [
            group
            for rule in _ordered_rules(call_rules, case_step)
            for group in _call_groups(rule, end_rules, default_groups, case_step)
        ]
    groups += [
        group
        for rule in _ordered_rules(end_rules, case_step)
        for group in _target_groups(rule, default_groups, case_step)
    ]
    if not groups:
        return own_next
    return Next(step.span, "exclusive", (*groups, *next_groups), own_next.on_no_match if own_next else None)


def read_item_routes(
    rules: tuple[CaseRule, ...], own_next: Next | None, step: Name, case_step: CaseStep, context: ParseContext
) -> Next | None:
    """Return the routes of an item of the step's loop. ``own_next`` is the ``next`` of the loop.

    A rule without targets ends the route of the item, unless no rule with targets follows it.
    """
    call_rules = _ordered_rules([rule for rule in rules if rule.phase == "call"], case_step)
    while call_rules and not (call_rules[-1].actions.next or call_rules[-1].actions.parallel):
        call_rules.pop()
    item_end: Group = (Arc(Name(context.final, step.span), step.span),)
    groups = tuple(group for rule in call_rules for group in _target_groups(rule, (item_end,), case_step))
    if not groups:
        return own_next
    next_groups = own_next.groups if own_next else ()
    return Next(step.span, "exclusive", (*groups, *next_groups), own_next.on_no_match if own_next else None)


def _has_targets(rule: CaseRule) -> bool:
    return bool(rule.actions.next) or rule.actions.skip


def _ordered_rules(rules: list[CaseRule], case_step: CaseStep) -> list[CaseRule]:
    """Return the rules that take part in the route, in order. Rules without targets precede ``else``, which they
    prevent from matching.
    """
    if not case_step.is_inclusive:
        return rules
    with_targets = [rule for rule in rules if rule.actions.next or rule.actions.parallel]
    without_targets = [rule for rule in rules if rule not in with_targets]
    else_rules = [rule for rule in with_targets if rule.is_else]
    return [*(rule for rule in with_targets if not rule.is_else), *(without_targets if else_rules else ()), *else_rules]


def _call_groups(
    rule: CaseRule, end_rules: list[CaseRule], default_groups: tuple[Group, ...], case_step: CaseStep
) -> list[Group]:
    """Return the arcs of a rule about the call. If it has no targets, they are those of the rules about the end,
    combined with it, and then those of ``next``.
    """
    if not rule.actions.next:
        combined_rules = [
            replace(other, when=combine_conditions(rule.when, other.when))
            for other in end_rules
            if "ok" in other.outcomes
        ]
        if "ok" in rule.outcomes:
            end_groups = [
                _with_assignments(group, rule, case_step)
                for other in combined_rules
                for group in _target_groups(other, default_groups, case_step)
            ]
            return [*end_groups, *_target_groups(rule, default_groups, case_step)]
    return _target_groups(rule, default_groups, case_step)


def _target_groups(rule: CaseRule, default_groups: tuple[Group, ...], case_step: CaseStep) -> list[Group]:
    """Return the arcs to the targets of a rule, or those of the step's ``next`` if it has no targets."""
    actions = rule.actions
    if actions.next:
        return [
            _with_assignments(
                _with_condition(rule.when, rule.on_status, (*actions.next, *actions.parallel)), rule, case_step
            )
        ]
    if "ok" not in rule.outcomes:
        return []
    groups = [
        _with_condition(combine_conditions(rule.when, group[0].when), "ok", (*group, *actions.parallel))
        for group in default_groups
    ]
    return [_with_assignments(group, rule, case_step) for group in groups]


def _with_condition(when: Template | None, on_status: OnStatus, arcs: Group) -> Group:
    return tuple(replace(arc, when=when, on_status=on_status) for arc in arcs)


def _with_assignments(group: Group, rule: CaseRule, case_step: CaseStep) -> Group:
    if not rule.actions.set or not sets_on_arcs(rule, case_step):
        return group
    return (replace(group[0], set=(*rule.actions.set, *group[0].set)), *group[1:])
