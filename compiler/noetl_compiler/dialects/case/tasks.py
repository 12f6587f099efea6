"""Convert ``case`` rules about a call to policy rules, guarded sinks and guarded tasks.

Actions that decide become policy rules: repeat, fail, skip, another result, assignments inside a loop. A rule that
decides nothing becomes a policy rule only to prevent later ones from matching: in exclusive mode, and before an
``else``. It then keeps the outcome (``continue`` after ok, ``fail`` after an error, which arcs may still handle).
"""

from __future__ import annotations

import re

from msgspec import structs
from msgspec.structs import replace

from noetl_compiler import graph
from noetl_compiler.dialects.case.repeats import Repeat
from noetl_compiler.dialects.case.rules import CaseRule, Subject
from noetl_compiler.graph import Assign, Guard, Sink, Span, Value
from noetl_compiler.graph.contents import value_at
from noetl_compiler.language import defaults
from noetl_compiler.language.words import Status
from noetl_compiler.syntax import Name, Policy, Rule, Task
from noetl_compiler.templates import TemplateFailure, read_paths

__all__ = ["guard_of", "guarded_sinks", "guarded_tasks", "policy_of", "reads_assigned", "sets_on_arcs"]


def policy_of(rules: tuple[CaseRule, ...], subject: Subject, span: Span, last_rules: tuple[Rule, ...]) -> Policy | None:
    """Return the policy of the step's own task; ``last_rules`` follow all case rules."""
    policy_rules: list[Rule] = []
    for phase in ("call", "end"):
        phase_rules = [rule for rule in rules if rule.phase == phase and not _is_after_loop(rule, subject)]
        policy_rules += _policy_rules(phase_rules, subject)
    policy_rules += last_rules
    return Policy(span, tuple(policy_rules), "fail") if policy_rules else None


def _is_after_loop(rule: CaseRule, subject: Subject) -> bool:
    return subject.element is not None and rule.phase == "end"


def _policy_rules(rules: list[CaseRule], subject: Subject) -> list[Rule]:
    """Convert the rules of one phase. A rule that decides nothing is only needed before one that does."""
    decisions: list[tuple[CaseRule, Status, graph.Rule | None]] = [
        (rule, on, _deciding_rule(rule, on, subject)) for rule in rules for on in rule.boundaries
    ]
    while decisions and decisions[-1][2] is None:
        decisions.pop()
    if not subject.is_inclusive:
        return [Rule(decision or _keeping_rule(rule, on)) for rule, on, decision in decisions]
    else_rules = [Rule(decision) for rule, _, decision in decisions if decision is not None and rule.is_else]
    other_decisions = [decision for decision in decisions if not decision[0].is_else]
    deciding = [
        Rule(decision or _keeping_rule(rule, on))
        for rule, on, decision in other_decisions
        if decision is not None or rule.actions.next
    ]
    keeping = [
        Rule(_keeping_rule(rule, on))
        for rule, on, decision in other_decisions
        if decision is None and not rule.actions.next
    ]
    return [*deciding, *keeping, *else_rules] if else_rules else deciding


def _keeping_rule(rule: CaseRule, on: Status) -> graph.Rule:
    """Return a rule that keeps the outcome of the call."""
    return graph.Rule("continue" if on == "ok" else "fail", rule.span, on, rule.when)


def _deciding_rule(rule: CaseRule, on: Status, subject: Subject) -> graph.Rule | None:
    """Convert a rule; None if its actions decide nothing about the call."""
    actions = rule.actions
    assignments = () if sets_on_arcs(rule, subject) or _needs_noop_task(rule, subject) else actions.set
    if actions.repeat is not None:
        return _repeating_rule(rule, actions.repeat, on, assignments)
    if actions.failure is not None:
        message = actions.failure if actions.failure.data is not True else None
        return graph.Rule("fail", rule.span, on, rule.when, set=assignments, message=message)
    if _ignores_error(rule) or (on == "ok" and (actions.result is not None or assignments)):
        return graph.Rule("continue", rule.span, on, rule.when, set=assignments, result=actions.result)
    return graph.Rule("fail", rule.span, on, rule.when, set=assignments) if assignments else None


def _repeating_rule(rule: CaseRule, repeat: Repeat, on: Status, assignments: tuple[Assign, ...]) -> graph.Rule:
    """Return a ``retry`` (same activity, with delays), or ``again`` for a call with other values or after success."""
    is_next = on == "ok" or repeat.has_changes
    return graph.Rule(
        "again" if is_next else "retry",
        rule.span,
        on,
        rule.when,
        attempts=repeat.attempts
        or (Value(defaults.PAGES) if is_next and repeat.has_changes else Value(defaults.ATTEMPTS)),
        backoff="none" if is_next else repeat.backoff,
        multiplier=repeat.multiplier,
        delay=repeat.delay or (None if is_next else Value(defaults.DELAY)),
        max_delay=repeat.max_delay,
        jitter=repeat.jitter,
        set=assignments,
        patch=repeat.patch,
        rebind=repeat.rebind,
        collect=rule.actions.collect,
    )


def sets_on_arcs(rule: CaseRule, subject: Subject) -> bool:
    """Whether the arcs of a rule make its assignments, so that nothing is evaluated twice."""
    actions = rule.actions
    if rule.phase == "enter":
        return bool(actions.next) or actions.skip
    if rule.phase == "end" and subject.element is not None:
        return True
    if subject.element is not None and not actions.next:
        return False
    if actions.repeat or actions.tasks or actions.failure or _ignores_error(rule):
        return False
    if any(reads_assigned(arc.args, pointer, actions.set) for arc in actions.next for pointer in arc.args.templates):
        return False
    return not subject.is_inclusive or bool(actions.next)


def _ignores_error(rule: CaseRule) -> bool:
    """Whether an error is ignored: by ``skip`` without targets. With targets, an edge handles the error."""
    return rule.actions.skip and not rule.actions.next


def _needs_noop_task(rule: CaseRule, subject: Subject) -> bool:
    """Whether a no-op task makes the assignments, as a policy would stop at the first of several matching rules, or at
    one whose retries are exhausted.
    """
    if sets_on_arcs(rule, subject) or rule.actions.repeat is not None or _ignores_error(rule):
        return False
    return subject.is_inclusive or rule.boundaries == ("error",)


def reads_assigned(value: Value, pointer: str, assignments: tuple[Assign, ...]) -> bool:
    """Whether the template at ``pointer`` reads a name that is assigned here, and so must see the new value."""
    names = {re.split(r"[.\[]", assign.target)[1] for assign in assignments}
    try:
        paths = [path.split(".") for path in read_paths(str(value_at(value.data, pointer)))]
    except TemplateFailure:
        return False
    return any((path[1] if path[0] in ("ctx", "vars") and len(path) > 1 else path[0]) in names for path in paths)


def guard_of(rule: CaseRule) -> Guard:
    """Return the guard under which a rule's tasks and sinks run."""
    return Guard(rule.on, rule.when, rule.unless)


def guarded_sinks(rules: tuple[CaseRule, ...]) -> tuple[Sink, ...]:
    """Return the sinks of rules that match success; those of rules about errors only become tasks."""
    return tuple(
        structs.replace(sink, guard=structs.replace(guard_of(rule), on="ok"))
        for rule in rules
        if "ok" in rule.boundaries
        for sink in rule.actions.sinks
    )


def guarded_tasks(rules: tuple[CaseRule, ...], subject: Subject, step: Name) -> tuple[Task, ...]:
    """Return the tasks named by rules, in order, and no-op tasks for the remaining actions of rules."""
    tasks: list[Task] = []
    for index, rule in enumerate(rules):
        if rule.phase == "enter" or _is_after_loop(rule, subject):
            continue
        label = f"{step.text}_case_{index + 1}"
        if rule.actions.set and _needs_noop_task(rule, subject):
            tasks.append(replace(_noop_task(label, rule), set=rule.actions.set))
        tasks += [replace(task, guard=guard_of(rule)) for task in rule.actions.tasks]
        if rule.actions.sinks and rule.boundaries == ("error",):
            tasks.append(replace(_noop_task(f"{label}_sink", rule), sinks=rule.actions.sinks))
    return tuple(tasks)


def _noop_task(label: str, rule: CaseRule) -> Task:
    return Task(Name(label, rule.span), Name("noop", rule.span), rule.span, guard=guard_of(rule))
