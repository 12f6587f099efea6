"""Combine the routes of ``case`` rules and ``next`` into one exclusive route.

The first match wins in both modes. In an inclusive ``case``, ``next`` ends the evaluation, so the route only has rules
with targets, and before an ``else`` all rules. In an exclusive one, a rule without targets is part of the route too and
leads to the step's own ``next``; rules about ``step.exit`` are then still evaluated, so each is combined with it.

In a loop, the rules about a call are the routes of its items, which are followed when an item's call has ended
(dev/decisions/0067). The loop's own route has the rules about its end.
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.dialects.case.rules import CaseRule, Subject
from noetl_compiler.dialects.case.tasks import sets_on_arcs
from noetl_compiler.dialects.tasks import ParseContext
from noetl_compiler.dialects.values import both
from noetl_compiler.graph import Template
from noetl_compiler.language.words import OnStatus
from noetl_compiler.syntax import Arc, Name, Next

__all__ = ["read_item_routes", "read_routes"]

Group = tuple[Arc, ...]


def read_routes(
    rules: tuple[CaseRule, ...], following: Next | None, step: Name, subject: Subject, around: ParseContext
) -> Next | None:
    """Return the route of a step. ``following`` is its own ``next``, which defaults to the final step."""
    otherwise: tuple[Group, ...] = following.groups if following else ()
    own = otherwise or (() if step.text == around.final else ((Arc(Name(around.final, step.span), step.span),),))
    entering = [rule for rule in rules if rule.moment == "enter" and _has_targets(rule)]
    calling = [rule for rule in rules if rule.moment == "call"]
    ending = [rule for rule in rules if rule.moment == "end"]
    groups = [group for rule in entering for group in _target_groups(rule, own, subject)]
    if subject.element is None:
        groups += [
            group for rule in _with_others(calling, subject) for group in _with_turns(rule, ending, own, subject)
        ]
    groups += [group for rule in _with_others(ending, subject) for group in _target_groups(rule, own, subject)]
    if not groups:
        return following
    return Next(step.span, "exclusive", (*groups, *otherwise), following.on_no_match if following else None)


def read_item_routes(
    rules: tuple[CaseRule, ...], following: Next | None, step: Name, subject: Subject, around: ParseContext
) -> Next | None:
    """Return the routes of an item of the step's loop. ``following`` is what the loop itself says of them.

    A rule without targets ends the item's path where it precedes one that has some.
    """
    calling = _with_others([rule for rule in rules if rule.moment == "call"], subject)
    while calling and not (calling[-1].actions.next or calling[-1].actions.beside):
        calling.pop()
    over: Group = (Arc(Name(around.final, step.span), step.span),)
    groups = tuple(group for rule in calling for group in _target_groups(rule, (over,), subject))
    if not groups:
        return following
    otherwise = following.groups if following else ()
    return Next(step.span, "exclusive", (*groups, *otherwise), following.on_no_match if following else None)


def _has_targets(rule: CaseRule) -> bool:
    return bool(rule.actions.next) or rule.actions.skip


def _with_others(rules: list[CaseRule], subject: Subject) -> list[CaseRule]:
    """Return the rules of the route in order; before an ``else``, also the rules that prevent it."""
    if not subject.is_inclusive:
        return rules
    leading = [rule for rule in rules if rule.actions.next or rule.actions.beside]
    others = [rule for rule in rules if rule not in leading]
    last = [rule for rule in leading if rule.is_else]
    return [*(rule for rule in leading if not rule.is_else), *(others if last else ()), *last]


def _with_turns(rule: CaseRule, ending: list[CaseRule], own: tuple[Group, ...], subject: Subject) -> list[Group]:
    """Return the edges of a rule about the call; without targets, rules about the end precede ``next``."""
    if not rule.actions.next:
        turns = [replace(one, when=both(rule.when, one.when)) for one in ending if "ok" in one.boundaries]
        if "ok" in rule.boundaries:
            taken = [_with_sets(group, rule, subject) for one in turns for group in _target_groups(one, own, subject)]
            return [*taken, *_target_groups(rule, own, subject)]
    return _target_groups(rule, own, subject)


def _target_groups(rule: CaseRule, own: tuple[Group, ...], subject: Subject) -> list[Group]:
    """Return the targets of a rule, or those of the step's ``next`` if it has none."""
    actions = rule.actions
    if actions.next:
        return [_with_sets(_with_condition(rule.when, rule.on, (*actions.next, *actions.beside)), rule, subject)]
    if "ok" not in rule.boundaries:
        return []
    groups = [_with_condition(both(rule.when, group[0].when), "ok", (*group, *actions.beside)) for group in own]
    return [_with_sets(group, rule, subject) for group in groups]


def _with_condition(when: Template | None, on: OnStatus, arcs: Group) -> Group:
    return tuple(replace(arc, when=when, on=on) for arc in arcs)


def _with_sets(group: Group, rule: CaseRule, subject: Subject) -> Group:
    if not rule.actions.set or not sets_on_arcs(rule, subject):
        return group
    return (replace(group[0], set=(*rule.actions.set, *group[0].set)), *group[1:])
