"""Convert ``case`` rules about a call to policy rules, guarded sinks and guarded tasks.

Actions that change what follows the call become policy rules: repeat, fail, skip, another result, assignments in a
loop. A rule without such an action becomes a policy rule only to prevent later rules from matching: in exclusive mode,
and before an ``else``. This policy rule keeps the outcome of the call: it continues after a success, and fails after an
error, which arcs may still handle.
"""

from __future__ import annotations

import re

from msgspec import structs
from msgspec.structs import replace

from noetl_compiler import graph
from noetl_compiler.dialects.case.repetitions import CallRepetition
from noetl_compiler.dialects.case.rules import CaseRule, CaseStep
from noetl_compiler.graph import Assign, Guard, Sink, Span, Value
from noetl_compiler.graph.contents import value_at
from noetl_compiler.language import defaults
from noetl_compiler.language.words import Status
from noetl_compiler.syntax import Name, Policy, Rule, Task
from noetl_compiler.templates import TemplateFailure, read_paths

__all__ = ["guard_of", "guarded_sinks", "guarded_tasks", "policy_of", "sets_on_arcs"]


def policy_of(
    rules: tuple[CaseRule, ...], case_step: CaseStep, span: Span, last_rules: tuple[Rule, ...]
) -> Policy | None:
    """Return the policy of the step's own task; ``last_rules`` follow all case rules."""
    policy_rules: list[Rule] = []
    for phase in ("call", "end"):
        phase_rules = [rule for rule in rules if rule.phase == phase and not _is_after_loop(rule, case_step)]
        policy_rules += _policy_rules(phase_rules, case_step)
    policy_rules += last_rules
    return Policy(span, tuple(policy_rules), "fail") if policy_rules else None


def _is_after_loop(rule: CaseRule, case_step: CaseStep) -> bool:
    return case_step.element is not None and rule.phase == "end"


def _policy_rules(rules: list[CaseRule], case_step: CaseStep) -> list[Rule]:
    """Convert the rules of one phase. A rule that keeps the outcome is only needed before one that changes it."""
    conversions: list[tuple[CaseRule, Status, graph.Rule | None]] = [
        (rule, on, _outcome_changing_rule(rule, on, case_step)) for rule in rules for on in rule.outcomes
    ]
    while conversions and conversions[-1][2] is None:
        conversions.pop()
    if not case_step.is_inclusive:
        return [Rule(changing or _outcome_keeping_rule(rule, on)) for rule, on, changing in conversions]
    else_rules = [Rule(changing) for rule, _, changing in conversions if changing is not None and rule.is_else]
    other_conversions = [conversion for conversion in conversions if not conversion[0].is_else]
    # a rule with targets ends the evaluation, so it prevents later rules, too
    first_rules = [
        Rule(changing or _outcome_keeping_rule(rule, on))
        for rule, on, changing in other_conversions
        if changing is not None or rule.actions.next
    ]
    rules_preventing_else = [
        Rule(_outcome_keeping_rule(rule, on))
        for rule, on, changing in other_conversions
        if changing is None and not rule.actions.next
    ]
    return [*first_rules, *rules_preventing_else, *else_rules] if else_rules else first_rules


def _outcome_keeping_rule(rule: CaseRule, on: Status) -> graph.Rule:
    """Return a policy rule that keeps the outcome of the call."""
    return graph.Rule("continue" if on == "ok" else "fail", rule.span, on, rule.when)


def _outcome_changing_rule(rule: CaseRule, on: Status, case_step: CaseStep) -> graph.Rule | None:
    """Convert a rule whose actions change what follows the call; None for any other."""
    actions = rule.actions
    assignments = () if sets_on_arcs(rule, case_step) or _needs_noop_task(rule, case_step) else actions.set
    if actions.repetition is not None:
        return _repeating_rule(rule, actions.repetition, on, assignments)
    if actions.failure is not None:
        message = actions.failure if actions.failure.data is not True else None
        return graph.Rule("fail", rule.span, on, rule.when, set=assignments, message=message)
    if _ignores_error(rule) or (on == "ok" and (actions.result is not None or assignments)):
        return graph.Rule("continue", rule.span, on, rule.when, set=assignments, result=actions.result)
    return graph.Rule("fail", rule.span, on, rule.when, set=assignments) if assignments else None


def _repeating_rule(
    rule: CaseRule, repetition: CallRepetition, on: Status, assignments: tuple[Assign, ...]
) -> graph.Rule:
    """Return a policy rule with ``retry``, or with ``again`` after a success and for a call with other values."""
    is_next_page = on == "ok" or repetition.has_changes
    return graph.Rule(
        "again" if is_next_page else "retry",
        rule.span,
        on,
        rule.when,
        attempts=repetition.attempts
        or (Value(defaults.PAGES) if is_next_page and repetition.has_changes else Value(defaults.ATTEMPTS)),
        backoff="none" if is_next_page else repetition.backoff,
        multiplier=repetition.multiplier,
        delay=repetition.delay or (None if is_next_page else Value(defaults.DELAY)),
        max_delay=repetition.max_delay,
        jitter=repetition.jitter,
        set=assignments,
        patch=repetition.patch,
        rebind=repetition.rebind,
        collect=rule.actions.collect,
    )


def sets_on_arcs(rule: CaseRule, case_step: CaseStep) -> bool:
    """Whether the arcs of a rule make its assignments, and no policy rule or task."""
    actions = rule.actions
    if rule.phase == "enter":
        return bool(actions.next) or actions.skip
    if rule.phase == "end" and case_step.element is not None:
        return True
    if case_step.element is not None and not actions.next:
        return False
    if actions.repetition or actions.tasks or actions.failure or _ignores_error(rule):
        return False
    if any(_reads_assigned(arc.args, pointer, actions.set) for arc in actions.next for pointer in arc.args.templates):
        return False
    return not case_step.is_inclusive or bool(actions.next)


def _ignores_error(rule: CaseRule) -> bool:
    """Whether a rule ignores an error: it has ``skip``, and no targets, to which an arc would lead."""
    return rule.actions.skip and not rule.actions.next


def _needs_noop_task(rule: CaseRule, case_step: CaseStep) -> bool:
    """Whether a no-op task makes the assignments. A policy cannot, as it applies only the first of several matching
    rules, even if its retries are exhausted.
    """
    if sets_on_arcs(rule, case_step) or rule.actions.repetition is not None or _ignores_error(rule):
        return False
    return case_step.is_inclusive or rule.outcomes == ("error",)


def _reads_assigned(value: Value, pointer: str, assignments: tuple[Assign, ...]) -> bool:
    """Whether the template at ``pointer`` reads one of the assigned names, whose new value it must see."""
    names = {re.split(r"[.\[]", assign.target)[1] for assign in assignments}
    try:
        paths = [path.split(".") for path in read_paths(str(value_at(value.data, pointer)))]
    except TemplateFailure:
        return False
    return any((path[1] if path[0] in ("ctx", "vars") and len(path) > 1 else path[0]) in names for path in paths)


def guard_of(rule: CaseRule) -> Guard:
    """Return the guard under which a rule's tasks and sinks run."""
    return Guard(rule.on_status, rule.when, rule.unless)


def guarded_sinks(rules: tuple[CaseRule, ...]) -> tuple[Sink, ...]:
    """Return the sinks of rules that match a success. The sinks of other rules become tasks (guarded_tasks)."""
    return tuple(
        structs.replace(sink, guard=structs.replace(guard_of(rule), on_status="ok"))
        for rule in rules
        if "ok" in rule.outcomes
        for sink in rule.actions.sinks
    )


def guarded_tasks(rules: tuple[CaseRule, ...], case_step: CaseStep, step: Name) -> tuple[Task, ...]:
    """Return the tasks in rules, in order, and no-op tasks that make assignments and store the outcomes of errors."""
    tasks: list[Task] = []
    for index, rule in enumerate(rules):
        if rule.phase == "enter" or _is_after_loop(rule, case_step):
            continue
        label = f"{step.text}_case_{index + 1}"
        if rule.actions.set and _needs_noop_task(rule, case_step):
            tasks.append(replace(_noop_task(label, rule), set=rule.actions.set))
        tasks += [replace(task, guard=guard_of(rule)) for task in rule.actions.tasks]
        if rule.actions.sinks and rule.outcomes == ("error",):
            tasks.append(replace(_noop_task(f"{label}_sink", rule), sinks=rule.actions.sinks))
    return tuple(tasks)


def _noop_task(label: str, rule: CaseRule) -> Task:
    return Task(Name(label, rule.span), Name("noop", rule.span), rule.span, guard=guard_of(rule))
