"""Combine the routes of ``case`` rules and ``next`` into one exclusive route.

The first match wins in both modes. In an inclusive ``case``, ``next`` ends the evaluation, so the route only has rules
with targets, and before an ``else`` all rules. In an exclusive one, a rule without targets is part of the route too and
leads to the step's own ``next``; rules about ``step.exit`` are then still evaluated, so each is combined with it.

A loop follows one edge, after its last item. A rule about an item that has targets records its index, and the arguments
of its targets, in ``ctx._chosen.<step>``; the edge of the last record is followed.
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.dialects.case.rules import CaseRule, Subject
from noetl_compiler.dialects.case.tasks import reads_assigned, sets_on_arcs
from noetl_compiler.dialects.tasks import ParseContext
from noetl_compiler.graph import Assign, EnterRule, ItemRule, Template, Value
from noetl_compiler.graph.contents import pointer
from noetl_compiler.language.names import CHOSEN, kept, kept_at
from noetl_compiler.language.words import OnStatus
from noetl_compiler.source import expressions
from noetl_compiler.syntax import Arc, Name, Next
from noetl_compiler.value_merge import names_in, overlay, picked

__all__ = ["noting", "read_routes", "reset_of_notes"]

Group = tuple[Arc, ...]


def read_routes(
    rules: tuple[CaseRule, ...], following: Next | None, step: Name, subject: Subject, around: ParseContext
) -> Next | None:
    """Return the route of a step. ``following`` is its own ``next``, which defaults to the final step."""
    otherwise: tuple[Group, ...] = following.groups if following else ()
    own = otherwise or (() if step.text == around.final else ((Arc(Name(around.final, step.span), step.span),),))
    entering = [rule for rule in rules if rule.moment == "enter" and _leaves(rule)]
    calling = [rule for rule in rules if rule.moment == "call"]
    ending = [rule for rule in rules if rule.moment == "end"]
    groups = [group for rule in entering for group in _ways(rule, own, subject)]
    if subject.element is None:
        groups += [
            group for rule in _with_others(calling, subject) for group in _with_turns(rule, ending, own, subject)
        ]
    else:
        groups += [_noted(rule, index, step) for index, rule in enumerate(calling) if rule.actions.next]
    groups += [group for rule in _with_others(ending, subject) for group in _ways(rule, own, subject)]
    if not groups:
        return following
    return Next(step.span, "exclusive", (*groups, *otherwise), following.on_no_match if following else None)


def _leaves(rule: CaseRule) -> bool:
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
        turns = [replace(one, when=_both(rule.when, one.when)) for one in ending if "ok" in one.boundaries]
        if "ok" in rule.boundaries:
            taken = [_with_sets(group, rule, subject) for one in turns for group in _ways(one, own, subject)]
            return [*taken, *_ways(rule, own, subject)]
    return _ways(rule, own, subject)


def _ways(rule: CaseRule, own: tuple[Group, ...], subject: Subject) -> list[Group]:
    """Return the targets of a rule, or those of the step's ``next`` if it has none."""
    actions = rule.actions
    if actions.next:
        return [_with_sets(_under(rule.when, rule.on, (*actions.next, *actions.beside)), rule, subject)]
    if "ok" not in rule.boundaries:
        return []
    groups = [_under(_both(rule.when, group[0].when), "ok", (*group, *actions.beside)) for group in own]
    return [_with_sets(group, rule, subject) for group in groups]


def _under(when: Template | None, on: OnStatus, arcs: Group) -> Group:
    return tuple(replace(arc, when=when, on=on) for arc in arcs)


def _with_sets(group: Group, rule: CaseRule, subject: Subject) -> Group:
    if not rule.actions.set or not sets_on_arcs(rule, subject):
        return group
    return (replace(group[0], set=(*rule.actions.set, *group[0].set)), *group[1:])


def _both(left: Template | None, right: Template | None) -> Template | None:
    """Combine two conditions with ``and``, so that the second is only evaluated if the first is true."""
    if left is None or right is None:
        return left or right
    return Template(f"{{{{ ({_inner(left)}) and ({_inner(right)}) }}}}", left.span)


def _inner(template: Template) -> str:
    text = template.source.strip()
    if expressions(text) == ((0, len(text)),) and text.startswith("{{"):
        return text[2:-2].strip("-+ \n")
    return repr(text)


# ---- routes of a loop ---------------------------------------------------------------------------------------------


def noting(rules: tuple[CaseRule, ...], step: Name, around: ParseContext) -> tuple[CaseRule, ...]:
    """Make the rules about an item record their targets, which are followed after the loop."""
    calling = [rule for rule in rules if rule.moment == "call"]
    return tuple(
        _noting(rule, calling.index(rule), step, around) if rule.moment == "call" and rule.actions.next else rule
        for rule in rules
    )


def _noting(rule: CaseRule, index: int, step: Name, around: ParseContext) -> CaseRule:
    message = "a rule for one item has a route, which is followed only after the whole loop"
    around.report.warning(
        Code.LATE_ROUTE, rule.span, message, "test for loop.done, or do the work in the tasks of the item"
    )
    noted = Value({"rule": index, "args": {}})
    for at, arc in enumerate(rule.actions.next):
        noted = _with_args(noted, str(at), _noted_part(arc, rule))
    note = Assign(kept_at(CHOSEN, step.text), noted, rule.span)
    return replace(rule, actions=replace(rule.actions, set=(*rule.actions.set, note)))


def _noted_part(arc: Arc, rule: CaseRule) -> Value:
    """Return the arguments to record. Those that read a name set by the rule are evaluated after the loop instead."""
    own = names_in(arc.args)
    late = {
        name
        for name in own
        if any(reads_assigned(arc.args, place, rule.actions.set) for place in picked(arc.args, {name}).templates)
    }
    return picked(arc.args, own.keys() - late)


def _with_args(note: Value, at: str, args: Value) -> Value:
    data = names_in(note)
    moved = {f"/args/{at}{place}": span for place, span in args.templates.items()}
    return Value({**data, "args": {**data["args"], at: args.data}}, {**note.templates, **moved})


def _noted(rule: CaseRule, index: int, step: Name) -> Group:
    note, noted = kept(CHOSEN, step.text), ItemRule(index, rule.span)
    return tuple(
        replace(arc, when=None, item_rule=noted, on=rule.on, args=_noted_args(arc, rule, f"{note}.args['{at}']"))
        for at, arc in enumerate(rule.actions.next)
    )


def _noted_args(arc: Arc, rule: CaseRule, note: str) -> Value:
    noted = names_in(_noted_part(arc, rule))
    read = {name: f"{{{{ {note}[{name!r}] }}}}" for name in noted}
    return overlay(arc.args, Value(read, {pointer("", name): arc.span for name in noted}))


def reset_of_notes(rules: tuple[CaseRule, ...], step: Name) -> tuple[EnterRule, ...]:
    """Clear the records when the loop is entered again."""
    if not any(rule.moment == "call" and rule.actions.next for rule in rules):
        return ()
    return (EnterRule((Assign(kept_at(CHOSEN, step.text), Value({}), step.span),), step.span),)
