"""The case dialect, January 2026: ``tool: {kind: ...}`` and rules about the events of a step.

dev/decisions/0011 describes how rules are compiled: rules.py assigns them to phases, tasks.py converts them to policy,
sinks and tasks, routes.py to arcs. A step may also use the constructs of other dialects.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from noetl_compiler import graph
from noetl_compiler.codes import Code
from noetl_compiler.dialects.case.page_stores import storing_pages
from noetl_compiler.dialects.case.routes import read_item_routes, read_routes
from noetl_compiler.dialects.case.rules import CaseRule, Subject, read_rules
from noetl_compiler.dialects.case.tasks import guard_of, guarded_sinks, guarded_tasks, policy_of
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.loops import read_loop
from noetl_compiler.dialects.policies import read_assigns
from noetl_compiler.dialects.routes import read_next
from noetl_compiler.dialects.tasks import ParseContext, read_task, read_tool, spec_of_task
from noetl_compiler.dialects.v10 import StepSpec, read_step_spec, with_older_wrappers
from noetl_compiler.dialects.values import assigns, mapping_value, timeout
from noetl_compiler.graph import AdmitRule, EnterRule, Value
from noetl_compiler.language import defaults, keys
from noetl_compiler.language.constructs.steps import STEP_SPEC
from noetl_compiler.language.words import CASE_ON_ERROR, ROUTE_MODES, CaseOnError
from noetl_compiler.nodes import MappingNode, ScalarNode, value_of
from noetl_compiler.syntax import Name, Rule, Step, Task

__all__ = ["read_step"]


class _Spec(NamedTuple):
    is_inclusive: bool = False
    on_error: CaseOnError = "fail"
    step: StepSpec = StepSpec()


def read_step(fields: Fields, name: Name, around: ParseContext) -> Step:
    """Read a step: its tool, its rules, its route."""
    report = around.report
    fields = _with_loop_of_tool(fields)
    spec, loop = _read_spec(fields), read_loop(fields.node_of("loop"), report)
    tasks = _read_tasks(fields, name, around)
    subject = Subject(tasks[-1].kind.text if tasks else "", loop.element.text if loop else None, spec.is_inclusive)
    read = read_rules(fields, subject, around, {task.label.text for task in tasks})
    rules = tuple(storing_pages(rule, report) for rule in read)
    _refuse_unanswerable(rules, subject, around)
    if loop is not None:
        loop = replace(loop, next=read_item_routes(rules, loop.next, name, subject, around))
    result = fields.node_of("result")
    step = Step(
        name,
        fields.span,
        fields.text("desc", "description"),
        admit=(*spec.step.admit, *_admissions(rules, subject)),
        join=spec.step.join,
        args=mapping_value(fields.node_of(*keys.INPUT), report, "args"),
        loop=loop,
        tasks=_with_rules(tasks, rules, subject, spec.on_error, name),
        set=(*assigns(fields.mapping("vars"), "ctx", report), *read_assigns(fields, "ctx")),
        result=value_of(result) if result else spec.step.returns,
        next=read_routes(rules, read_next(fields.node_of("next"), report, spec.step.mode), name, subject, around),
        timeout=timeout(fields.node_of("timeout"), report) or spec.step.timeout,
        ends=spec.step.ends,
        sinks=spec.step.sinks,
        enter=(*spec.step.enter, *_enter_rules(rules)),
        failure=spec.step.failure,
        defaults=spec.step.defaults,
    )
    fields.close(("case", "tool", "loop", "spec"))
    return step


def _with_loop_of_tool(fields: Fields) -> Fields:
    """Move ``loop`` from ``tool`` to the step, where the previous dialect has it."""
    tool = fields.node.get("tool")
    moved = [entry for entry in tool.entries if entry[0].text == "loop"] if isinstance(tool, MappingNode) else []
    if not moved or not isinstance(tool, MappingNode) or "loop" in fields:
        return fields
    message = '"loop" belongs to the step, not to its tool'
    fields.report.warning(Code.DEPRECATED_FORM, moved[0][0].span, message, "move it beside the tool")
    inner = MappingNode(tuple(entry for entry in tool.entries if entry not in moved), tool.span)
    entries = ((key, inner if key.text == "tool" else node) for key, node in fields.node.entries)
    found = Fields(MappingNode((*entries, *moved), fields.span), fields.report, fields.place)
    found.node_of("step")
    return found


def _read_spec(fields: Fields) -> _Spec:
    spec = ConstructFields.below(fields, "spec", STEP_SPEC)
    if spec is None:
        return _Spec()
    found = _Spec(
        spec.choice("case_mode", ROUTE_MODES) == "inclusive",
        spec.choice("on_error", CASE_ON_ERROR) or "fail",
        read_step_spec(spec),
    )
    spec.ignore("eval_mode", why="each event of a step is evaluated once, when it happens")
    spec.close()
    return found


def _read_tasks(fields: Fields, name: Name, around: ParseContext) -> tuple[Task, ...]:
    """Read ``tool``: a mapping, a list, or, as in the previous dialect, a word with its fields on the step."""
    tool = fields.node_of("tool")
    if isinstance(tool, ScalarNode):
        found = fields.node_of("spec")  # that of the step too
        spec = spec_of_task(found) if isinstance(found, MappingNode) else None
        task = read_task(fields, Name(tool.text, tool.span), Name(name.text, name.span), around, spec_node=spec)
        return (task,) if task else ()
    return with_older_wrappers(fields, read_tool(tool, name, around), around)


def _refuse_unanswerable(rules: tuple[CaseRule, ...], subject: Subject, around: ParseContext) -> None:
    """Report rules that read the outcome of a call when there is no call."""
    for rule in rules:
        actions, where = rule.actions, ""
        if rule.moment == "enter" and replace(actions, skip=False).needs_call:
            where = "when the step is entered"
        elif rule.moment == "end" and subject.element is not None and actions.needs_call:
            where = "when the loop has ended"
        elif not subject.has_tool and actions.repeat is not None:
            where = "in a step without a tool"
        elif actions.tasks and actions.repeat is not None and "ok" in rule.boundaries:
            where = "beside a repeated call"
        if where:
            message = f"this rule needs the outcome of a call, and there is none {where}"
            hint = 'only "next", "set" and "collect: {from, into}" work here; move the rest to another step'
            around.report.error(Code.WRONG_VALUE, rule.span, message, hint)


def _admissions(rules: tuple[CaseRule, ...], subject: Subject) -> tuple[AdmitRule, ...]:
    """Convert rules about ``step.enter`` with targets: the step is skipped, and their arcs match that."""
    entering = [rule for rule in rules if rule.moment == "enter"]
    leaving = [bool(rule.actions.next) or rule.actions.skip for rule in entering]
    if not any(leaving):
        return ()
    return tuple(
        AdmitRule(not leaves, rule.span, rule.when)
        for rule, leaves in zip(entering, leaving, strict=True)
        if leaves or not subject.is_inclusive
    )


def _enter_rules(rules: tuple[CaseRule, ...]) -> tuple[EnterRule, ...]:
    return tuple(
        EnterRule(rule.actions.set, rule.span, guard_of(rule))
        for rule in rules
        if rule.moment == "enter" and rule.actions.set and not (rule.actions.next or rule.actions.skip)
    )


def _with_rules(
    tasks: tuple[Task, ...], rules: tuple[CaseRule, ...], subject: Subject, on_error: CaseOnError, step: Name
) -> tuple[Task, ...]:
    """Apply the rules to the last task of the step, whose call they are about."""
    working = any(rule.actions.needs_call for rule in rules if rule.moment != "enter")
    if not tasks:
        if not working and subject.element is None:
            return ()
        tasks = (Task(Name(f"{step.text}_task", step.span), Name("noop", step.span), step.span),)
    own = tasks[-1]
    policy = policy_of(rules, subject, own.span, _last_rules(on_error, own))
    if own.policy and policy:
        policy = replace(own.policy, rules=(*own.policy.rules, *policy.rules), unmatched="fail")
    own = replace(own, policy=policy or own.policy, sinks=(*own.sinks, *guarded_sinks(rules)))
    return (*tasks[:-1], own, *guarded_tasks(rules, subject, step))


def _last_rules(on_error: CaseOnError, task: Task) -> tuple[Rule, ...]:
    match on_error:
        case "fail":
            return ()
        case "continue":
            return (Rule(graph.Rule("continue", task.span, "error")),)
        case "retry":
            return (
                Rule(
                    graph.Rule(
                        "retry", task.span, "error", attempts=Value(defaults.ATTEMPTS), delay=Value(defaults.DELAY)
                    )
                ),
            )
