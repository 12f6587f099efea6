"""Read the rules of a step's ``case``, and assign each to a phase of the step.

There are three phases (dev/decisions/0011). *enter*: before the loop or the call. *call*: after each call, that is,
after each page and each item. *end*: after the step, with its loop. Within one phase, the first rule that matches is
applied (``case_mode: exclusive``), or all that match.

``step.exit`` is emitted at the end, but in a loop the author may mean each item: such a rule belongs to calls if it
reads the outcome of a call, and is split in two if it also has other actions.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import nearest
from noetl_compiler.dialects.case.actions import Actions, read_actions
from noetl_compiler.dialects.case.collect import as_assignment
from noetl_compiler.dialects.case.events import also_at, answered_events, reads
from noetl_compiler.dialects.fields import Fields, kind_of
from noetl_compiler.dialects.tasks import ParseContext
from noetl_compiler.dialects.values import condition
from noetl_compiler.graph import Span, Template
from noetl_compiler.language.events import CASE_EVENTS, CaseEvent
from noetl_compiler.language.names import OF_THE_CALL
from noetl_compiler.language.words import OnStatus, Status
from noetl_compiler.nodes import MappingNode, Node, ScalarNode
from noetl_compiler.templates import TemplateFailure, paths
from noetl_compiler.templating.boundary import boundary
from noetl_compiler.templating.truth import string_constants

__all__ = ["CaseRule", "Subject", "read_rules"]

Moment = Literal["enter", "call", "end"]

_CALL_NAMES = OF_THE_CALL.keys() - {"outcome", "_outcome"}


class Subject(msgspec.Struct, frozen=True):
    """The step of the rules. ``element``: the loop variable, None without a loop."""

    kind: str
    element: str | None
    is_inclusive: bool

    @property
    def has_tool(self) -> bool:
        return bool(self.kind)


class CaseRule(msgspec.Struct, frozen=True):
    """One rule in one phase. ``boundaries``: the outcomes it can match; ``unless``: rules that take precedence."""

    span: Span
    actions: Actions
    moment: Moment
    boundaries: tuple[Status, ...]
    when: Template | None
    unless: tuple[Template, ...] = ()

    @property
    def is_else(self) -> bool:
        """Whether it only applies if no other rule does, even in an inclusive case."""
        return self.when is None and bool(self.unless)

    @property
    def on(self) -> OnStatus:
        return self.boundaries[0] if len(self.boundaries) == 1 else "any"


class _Entry(msgspec.Struct, frozen=True):
    span: Span
    when: Template | None
    is_else: bool
    actions: Actions


def read_rules(fields: Fields, subject: Subject, around: ParseContext, labels: set[str]) -> tuple[CaseRule, ...]:
    """Read the rules in document order, each with the rules that precede it in its phase."""
    entries = [entry for node in fields.items("case") for entry in _read_entry(node, subject, around, labels)]
    _assign_collects(entries, around)
    placed = [rule for entry in entries for rule in _rules_of_entry(entry, subject, entries, around)]
    return tuple(_after_others(rule, placed[:index], subject) for index, rule in enumerate(placed))


def _read_entry(node: Node, subject: Subject, around: ParseContext, labels: set[str]) -> list[_Entry]:
    """Read ``{when, then}``, ``{else}``, or both in one mapping."""
    if not isinstance(node, MappingNode):
        around.report.error(Code.WRONG_TYPE, node.span, f"a case rule must be a mapping, not {kind_of(node)}")
        return []
    fields = Fields(node, around.report, "a case rule")
    when_node = fields.node_of("when")
    is_else = isinstance(when_node, ScalarNode) and when_node.text.strip().lower() == "else"
    when = None if is_else else condition(when_node, around.report)
    then, otherwise = fields.node_of("then"), fields.node_of("else")
    fields.close()
    if then is None and (otherwise is None or when_node is not None):
        fields.missing("then")
    if isinstance(otherwise, MappingNode) and len(otherwise.entries) == 1:
        otherwise = otherwise.get("then") or otherwise
    found: list[_Entry] = []
    if then is not None:
        found.append(_Entry(node.span, when, is_else, read_actions(then, subject.kind, around, labels)))
    if otherwise is not None:
        found.append(_Entry(otherwise.span, None, True, read_actions(otherwise, subject.kind, around, labels)))
    return found


def _assign_collects(entries: list[_Entry], around: ParseContext) -> None:
    """Keep Collects only in rules that repeat the call; elsewhere drop duplicates of them, and assign the others."""
    gathered = [entry.actions.collect for entry in entries if entry.actions.repeat]
    for entry in entries:
        actions = entry.actions
        if actions.collect is None or actions.repeat is not None:
            continue
        repeats = actions.collect in gathered
        assigned = None if repeats else as_assignment(actions.collect, entry.span, around.report)
        actions.collect, actions.set = None, (*actions.set, assigned) if assigned else actions.set


def _rules_of_entry(entry: _Entry, subject: Subject, entries: list[_Entry], around: ParseContext) -> list[CaseRule]:
    events = answered_events(entry.when)
    if not events:
        message = "this condition matches no event of a step"
        texts = string_constants(entry.when.source) if entry.when else ()
        hint = next(
            filter(None, (nearest(word, CASE_EVENTS) for word in texts)), f"events are {', '.join(CASE_EVENTS)}"
        )
        around.report.warning(Code.IGNORED_FIELD, entry.when.span if entry.when else entry.span, message, hint)
        return []
    rule = CaseRule(entry.span, entry.actions, "call", _boundaries(events), _condition(entry.when, events))
    if "step.enter" in events and len(events) == 1:
        return [_at_enter(rule, subject)]
    if entry.is_else:
        rules = [one for other in entries if not other.is_else for one in _rules_of_entry(other, subject, [], around)]
        moment: Moment = "end" if all(one.moment == "end" for one in rules) and rules else "call"
        reads_outcome = any(boundary(other.when) == "any" for other in entries if other.when is not None)
        return [replace(rule, moment=moment, boundaries=("ok", "error") if reads_outcome else rule.boundaries)]
    if events & {"call.done", "call.error", "loop.item"}:
        return [rule]
    if subject.element is None:
        return [replace(rule, moment="end")]
    return _in_loop(rule, events, subject)


def _boundaries(events: frozenset[CaseEvent]) -> tuple[Status, ...]:
    return (*(("ok",) if events - {"call.error"} else ()), *(("error",) if "call.error" in events else ()))


def _condition(when: Template | None, events: frozenset[CaseEvent]) -> Template | None:
    """Extend ``call.done`` to ``call.error`` in rules that read the error, an early form of the dialect."""
    return also_at(when, "call.done", "call.error") if when and "call.error" in events else when


def _at_enter(rule: CaseRule, subject: Subject) -> CaseRule:
    """Place a rule about ``step.enter``: at enter, or at the end of a step without a tool or loop."""
    if subject.has_tool or subject.element is not None or rule.when is None:
        return replace(rule, moment="enter")
    return replace(rule, when=also_at(rule.when, "step.enter", "step.exit"))


def _in_loop(rule: CaseRule, events: frozenset[CaseEvent], subject: Subject) -> list[CaseRule]:
    """Place a rule about ``step.exit`` or ``loop.done`` of a step with a loop."""
    at_item, at_end = replace(rule, moment="call"), replace(rule, moment="end")
    if "step.exit" not in events:
        return [at_end]
    if _is_about_item(rule, subject):
        return [at_item]
    if not rule.actions.needs_call:
        return [at_end]
    if not (rule.actions.next or rule.actions.beside):
        return [at_item]
    leading = Actions(next=rule.actions.next, beside=rule.actions.beside)
    return [
        replace(at_item, actions=replace(rule.actions, next=(), beside=())),
        replace(at_end, actions=leading),
    ]


def _is_about_item(rule: CaseRule, subject: Subject) -> bool:
    """Whether the condition reads a field of a call's outcome, or the item."""
    if rule.when is None:
        return False
    if reads(rule.when, subject.element or "", "error", "status_code"):
        return True
    try:
        return any("." in path and path.partition(".")[0] in _CALL_NAMES for path in paths(rule.when.source))
    except TemplateFailure:
        return False


def _after_others(rule: CaseRule, before: list[CaseRule], subject: Subject) -> CaseRule:
    """Record the rules that must not match: for exclusive rules and for ``else`` all, for inclusive ones those with a
    ``next``, which ends the evaluation (dev/decisions/0096).

    A rule about errors also applies after the retries of an earlier one are exhausted.
    """
    if subject.is_inclusive and rule.when is not None:
        before = [one for one in before if one.actions.next]
    same = (one for one in before if one.moment == rule.moment and set(one.boundaries) & set(rule.boundaries))
    found = (one for one in same if rule.boundaries != ("error",) or one.actions.repeat is None)
    return replace(rule, unless=tuple(one.when for one in found if one.when is not None))
