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
from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.dialects.case.actions import Actions, read_actions
from noetl_compiler.dialects.case.collect import as_assignment
from noetl_compiler.dialects.case.events import extend_condition, matching_events, reads
from noetl_compiler.dialects.fields import Fields, kind_of
from noetl_compiler.dialects.tasks import ParseContext
from noetl_compiler.dialects.values import condition
from noetl_compiler.graph import Span, Template
from noetl_compiler.language.events import CASE_EVENTS, CaseEvent
from noetl_compiler.language.names import CALL_NAMES
from noetl_compiler.language.words import OnStatus, Status
from noetl_compiler.nodes import MappingNode, Node, ScalarNode
from noetl_compiler.templates import TemplateFailure, read_paths
from noetl_compiler.templating.default_on_status import default_on_status
from noetl_compiler.templating.truth import string_constants

__all__ = ["CaseRule", "CaseStep", "read_rules"]

Phase = Literal["enter", "call", "end"]

_CALL_NAMES = CALL_NAMES.keys() - {"outcome", "_outcome"}


class CaseStep(msgspec.Struct, frozen=True):
    """The step to which the rules belong. ``kind`` is that of the tool of its last task, empty without a tool;
    ``element`` is the name of its loop variable, None without a loop. ``is_inclusive``: all matching rules apply, not
    only the first.
    """

    kind: str
    element: str | None
    is_inclusive: bool

    @property
    def has_tool(self) -> bool:
        """Whether the step calls a tool."""
        return bool(self.kind)


class CaseRule(msgspec.Struct, frozen=True):
    """One rule in one phase. ``outcomes`` are those of a call that it can match; ``unless`` are the conditions of rules
    that take precedence.
    """

    span: Span
    actions: Actions
    phase: Phase
    outcomes: tuple[Status, ...]
    when: Template | None
    unless: tuple[Template, ...] = ()

    @property
    def is_else(self) -> bool:
        """Whether it only applies if no other rule does, even in an inclusive case."""
        return self.when is None and bool(self.unless)

    @property
    def on_status(self) -> OnStatus:
        """The outcomes that it can match, in the form of a policy rule."""
        return self.outcomes[0] if len(self.outcomes) == 1 else "any"


class _Entry(msgspec.Struct, frozen=True):
    """An item of ``case`` as written, before it is assigned to a phase."""

    span: Span
    when: Template | None
    is_else: bool
    actions: Actions


def read_rules(fields: Fields, case_step: CaseStep, context: ParseContext, labels: set[str]) -> tuple[CaseRule, ...]:
    """Read the rules in document order, each with the rules that precede it in its phase."""
    entries = [entry for node in fields.items("case") for entry in _read_entry(node, case_step, context, labels)]
    _assign_collects(entries, context)
    rules = [rule for entry in entries for rule in _rules_of_entry(entry, case_step, entries, context)]
    return tuple(_with_exclusions(rule, rules[:index], case_step) for index, rule in enumerate(rules))


def _read_entry(node: Node, case_step: CaseStep, context: ParseContext, labels: set[str]) -> list[_Entry]:
    """Read ``{when, then}``, ``{else}``, or both in one mapping."""
    if not isinstance(node, MappingNode):
        context.report.error(Code.WRONG_TYPE, node.span, f"a case rule must be a mapping, not {kind_of(node)}")
        return []
    fields = Fields(node, context.report, "a case rule")
    when_node = fields.node_of("when")
    is_else = isinstance(when_node, ScalarNode) and when_node.text.strip().lower() == "else"
    when = None if is_else else condition(when_node, context.report)
    then, else_node = fields.node_of("then"), fields.node_of("else")
    fields.check_keys()
    if then is None and (else_node is None or when_node is not None):
        fields.report_missing("then")
    if isinstance(else_node, MappingNode) and len(else_node.entries) == 1:
        else_node = else_node.get("then") or else_node
    entries: list[_Entry] = []
    if then is not None:
        entries.append(_Entry(node.span, when, is_else, read_actions(then, case_step.kind, context, labels)))
    if else_node is not None:
        entries.append(_Entry(else_node.span, None, True, read_actions(else_node, case_step.kind, context, labels)))
    return entries


def _assign_collects(entries: list[_Entry], context: ParseContext) -> None:
    """Keep a Collect only in an entry that repeats the call. In any other entry, drop it if it is the same as one that
    is kept; otherwise convert it to an assignment.
    """
    collects_of_repetitions = [entry.actions.collect for entry in entries if entry.actions.repetition]
    for entry in entries:
        actions = entry.actions
        if actions.collect is None or actions.repetition is not None:
            continue
        is_duplicate = actions.collect in collects_of_repetitions
        assignment = None if is_duplicate else as_assignment(actions.collect, entry.span, context.report)
        actions.collect, actions.set = None, (*actions.set, assignment) if assignment else actions.set


def _rules_of_entry(entry: _Entry, case_step: CaseStep, entries: list[_Entry], context: ParseContext) -> list[CaseRule]:
    events = matching_events(entry.when)
    if not events:
        message = "this condition matches no event of a step"
        texts = string_constants(entry.when.source) if entry.when else ()
        hint = next(
            filter(None, (did_you_mean(word, CASE_EVENTS) for word in texts)), f"events are {', '.join(CASE_EVENTS)}"
        )
        context.report.warning(Code.IGNORED_FIELD, entry.when.span if entry.when else entry.span, message, hint)
        return []
    rule = CaseRule(
        entry.span, entry.actions, "call", _outcomes_of_events(events), _extended_condition(entry.when, events)
    )
    if "step.enter" in events and len(events) == 1:
        return [_enter_rule(rule, case_step)]
    if entry.is_else:
        other_rules = [
            other_rule
            for other in entries
            if not other.is_else
            for other_rule in _rules_of_entry(other, case_step, [], context)
        ]
        phase: Phase = "end" if other_rules and all(other_rule.phase == "end" for other_rule in other_rules) else "call"
        reads_outcome = any(default_on_status(other.when) == "any" for other in entries if other.when is not None)
        return [replace(rule, phase=phase, outcomes=("ok", "error") if reads_outcome else rule.outcomes)]
    if events & {"call.done", "call.error", "loop.item"}:
        return [rule]
    if case_step.element is None:
        return [replace(rule, phase="end")]
    return _loop_rules(rule, events, case_step)


def _outcomes_of_events(events: frozenset[CaseEvent]) -> tuple[Status, ...]:
    return (*(("ok",) if events - {"call.error"} else ()), *(("error",) if "call.error" in events else ()))


def _extended_condition(when: Template | None, events: frozenset[CaseEvent]) -> Template | None:
    """Return the condition; early rules that read the error at ``call.done`` are extended to ``call.error``."""
    return extend_condition(when, "call.done", "call.error") if when and "call.error" in events else when


def _enter_rule(rule: CaseRule, case_step: CaseStep) -> CaseRule:
    """Assign a rule about ``step.enter`` to the phase *enter*. In a step without tool and loop, it matches
    ``step.exit`` too, and stays in the phase *call*.
    """
    if case_step.has_tool or case_step.element is not None or rule.when is None:
        return replace(rule, phase="enter")
    return replace(rule, when=extend_condition(rule.when, "step.enter", "step.exit"))


def _loop_rules(rule: CaseRule, events: frozenset[CaseEvent], case_step: CaseStep) -> list[CaseRule]:
    """Assign a rule about ``step.exit`` or ``loop.done`` of a loop to a phase, or split it between two."""
    item_rule, end_rule = replace(rule, phase="call"), replace(rule, phase="end")
    if "step.exit" not in events:
        return [end_rule]
    if _is_about_item(rule, case_step):
        return [item_rule]
    if not rule.actions.needs_call:
        return [end_rule]
    if not (rule.actions.next or rule.actions.parallel):
        return [item_rule]
    routing = Actions(next=rule.actions.next, parallel=rule.actions.parallel)
    return [
        replace(item_rule, actions=replace(rule.actions, next=(), parallel=())),
        replace(end_rule, actions=routing),
    ]


def _is_about_item(rule: CaseRule, case_step: CaseStep) -> bool:
    """Whether the condition reads a field of a call's outcome, or the item."""
    if rule.when is None:
        return False
    if reads(rule.when, case_step.element or "", "error", "status_code"):
        return True
    try:
        return any("." in path and path.partition(".")[0] in _CALL_NAMES for path in read_paths(rule.when.source))
    except TemplateFailure:
        return False


def _with_exclusions(rule: CaseRule, earlier_rules: list[CaseRule], case_step: CaseStep) -> CaseRule:
    """Return the rule with the conditions of the earlier rules that must not match. For an exclusive rule and for
    ``else`` these are all earlier rules; for an inclusive rule those with a ``next``, which ends the evaluation
    (dev/decisions/0096).

    A rule about errors also applies after the retries of an earlier rule are exhausted.
    """
    if case_step.is_inclusive and rule.when is not None:
        earlier_rules = [earlier for earlier in earlier_rules if earlier.actions.next]
    overlapping = (
        earlier
        for earlier in earlier_rules
        if earlier.phase == rule.phase and set(earlier.outcomes) & set(rule.outcomes)
    )
    excluding_rules = (
        earlier for earlier in overlapping if rule.outcomes != ("error",) or earlier.actions.repetition is None
    )
    return replace(rule, unless=tuple(earlier.when for earlier in excluding_rules if earlier.when is not None))
