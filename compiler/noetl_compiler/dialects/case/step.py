"""The case dialect, January 2026: ``tool: {kind: ...}`` and rules about the events of a step.

dev/decisions/0011 describes how rules are compiled: rules.py assigns them to phases, tasks.py converts them to policy,
sinks and tasks, routes.py to arcs. A step may also use the constructs of other dialects.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from noetl_compiler import graph
from noetl_compiler.codes import Code
from noetl_compiler.dialects.case.page_stores import with_page_sinks
from noetl_compiler.dialects.case.routes import read_item_routes, read_routes
from noetl_compiler.dialects.case.rules import CaseRule, CaseStep, read_rules
from noetl_compiler.dialects.case.tasks import guard_of, guarded_sinks, guarded_tasks, policy_of
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.loops import read_loop
from noetl_compiler.dialects.policies import read_assigns
from noetl_compiler.dialects.routes import read_next
from noetl_compiler.dialects.tasks import ParseContext, read_task, read_tool, spec_of_task
from noetl_compiler.dialects.v10 import StepSpec, read_step_spec, with_retry_and_sinks_of_step
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


def read_step(fields: Fields, name: Name, context: ParseContext) -> Step:
    """Read a step: its tool, its rules, its route."""
    report = context.report
    fields = _with_loop_of_tool(fields)
    spec, loop = _read_spec(fields), read_loop(fields.node_of("loop"), report)
    tasks = _read_tasks(fields, name, context)
    case_step = CaseStep(tasks[-1].kind.text if tasks else "", loop.element.text if loop else None, spec.is_inclusive)
    rules_with_tasks = read_rules(fields, case_step, context, {task.label.text for task in tasks})
    rules = tuple(with_page_sinks(rule, report) for rule in rules_with_tasks)
    _forbid_rules_without_call(rules, case_step, context)
    if loop is not None:
        loop = replace(loop, next=read_item_routes(rules, loop.next, name, case_step, context))
    result = fields.node_of("result")
    step = Step(
        name,
        fields.span,
        fields.text("desc", "description"),
        admit=(*spec.step.admit, *_admission_rules(rules, case_step)),
        join=spec.step.join,
        args=mapping_value(fields.node_of(*keys.INPUT), report, "args"),
        loop=loop,
        tasks=_with_rules(tasks, rules, case_step, spec.on_error, name),
        set=(*assigns(fields.mapping("vars"), "ctx", report), *read_assigns(fields, "ctx")),
        result=value_of(result) if result else spec.step.returns,
        next=read_routes(rules, read_next(fields.node_of("next"), report, spec.step.mode), name, case_step, context),
        timeout=timeout(fields.node_of("timeout"), report) or spec.step.timeout,
        ended_loop=spec.step.ended_loop,
        sinks=spec.step.sinks,
        enter=(*spec.step.enter, *_enter_rules(rules)),
        branch_failure=spec.step.branch_failure,
        defaults=spec.step.defaults,
    )
    fields.check_keys(("case", "tool", "loop", "spec"))
    return step


def _with_loop_of_tool(fields: Fields) -> Fields:
    """Move ``loop`` from ``tool`` to the step, where the previous dialect has it."""
    tool = fields.node.get("tool")
    loop_entries = [entry for entry in tool.entries if entry[0].text == "loop"] if isinstance(tool, MappingNode) else []
    if not loop_entries or not isinstance(tool, MappingNode) or "loop" in fields:
        return fields
    message = '"loop" belongs to the step, not to its tool'
    fields.report.warning(Code.DEPRECATED_FORM, loop_entries[0][0].span, message, "move it beside the tool")
    tool_without_loop = tool.without("loop")
    entries = ((key, tool_without_loop if key.text == "tool" else node) for key, node in fields.node.entries)
    step_fields = Fields(MappingNode((*entries, *loop_entries), fields.span), fields.report, fields.description)
    step_fields.node_of("step")
    return step_fields


def _read_spec(fields: Fields) -> _Spec:
    spec = ConstructFields.nested(fields, "spec", STEP_SPEC)
    if spec is None:
        return _Spec()
    step_spec = _Spec(
        spec.choice("case_mode", ROUTE_MODES) == "inclusive",
        spec.choice("on_error", CASE_ON_ERROR) or "fail",
        read_step_spec(spec),
    )
    spec.ignore("eval_mode", reason="each event of a step is evaluated once, when it happens")
    spec.check_keys()
    return step_spec


def _read_tasks(fields: Fields, name: Name, context: ParseContext) -> tuple[Task, ...]:
    """Read ``tool``: a mapping, a list, or, as in the previous dialect, a word with its fields on the step."""
    tool = fields.node_of("tool")
    if isinstance(tool, ScalarNode):
        spec_node = fields.node_of("spec")  # also the spec of the step
        task_spec = spec_of_task(spec_node) if isinstance(spec_node, MappingNode) else None
        task = read_task(fields, Name(tool.text, tool.span), Name(name.text, name.span), context, spec_node=task_spec)
        return (task,) if task else ()
    return with_retry_and_sinks_of_step(fields, read_tool(tool, name, context), context)


def _forbid_rules_without_call(rules: tuple[CaseRule, ...], case_step: CaseStep, context: ParseContext) -> None:
    """Report rules that read the outcome of a call when there is no call."""
    for rule in rules:
        actions, situation = rule.actions, ""
        if rule.phase == "enter" and replace(actions, skip=False).needs_call:
            situation = "when the step is entered"
        elif rule.phase == "end" and case_step.element is not None and actions.needs_call:
            situation = "when the loop has ended"
        elif not case_step.has_tool and actions.repetition is not None:
            situation = "in a step without a tool"
        elif actions.tasks and actions.repetition is not None and "ok" in rule.outcomes:
            situation = "beside a repeated call"
        if situation:
            message = f"this rule needs the outcome of a call, and there is none {situation}"
            hint = 'only "next", "set" and "collect: {from, into}" work here; move the rest to another step'
            context.report.error(Code.WRONG_VALUE, rule.span, message, hint)


def _admission_rules(rules: tuple[CaseRule, ...], case_step: CaseStep) -> tuple[AdmitRule, ...]:
    """Convert rules about ``step.enter`` that have targets: they skip the step, and their arcs match a skip."""
    enter_rules = [rule for rule in rules if rule.phase == "enter"]
    skips = [bool(rule.actions.next) or rule.actions.skip for rule in enter_rules]
    if not any(skips):
        return ()
    return tuple(
        AdmitRule(not skips_step, rule.span, rule.when)
        for rule, skips_step in zip(enter_rules, skips, strict=True)
        if skips_step or not case_step.is_inclusive
    )


def _enter_rules(rules: tuple[CaseRule, ...]) -> tuple[EnterRule, ...]:
    return tuple(
        EnterRule(rule.actions.set, rule.span, guard_of(rule))
        for rule in rules
        if rule.phase == "enter" and rule.actions.set and not (rule.actions.next or rule.actions.skip)
    )


def _with_rules(
    tasks: tuple[Task, ...], rules: tuple[CaseRule, ...], case_step: CaseStep, on_error: CaseOnError, step: Name
) -> tuple[Task, ...]:
    """Apply the rules to the last task of the step, whose call they are about."""
    needs_task = any(rule.actions.needs_call for rule in rules if rule.phase != "enter")
    if not tasks:
        if not needs_task and case_step.element is None:
            return ()
        tasks = (Task(Name(f"{step.text}_task", step.span), Name("noop", step.span), step.span),)
    last_task = tasks[-1]
    policy = policy_of(rules, case_step, last_task.span, _rules_of_on_error(on_error, last_task))
    if last_task.policy and policy:
        policy = replace(last_task.policy, rules=(*last_task.policy.rules, *policy.rules), unmatched="fail")
    last_task = replace(last_task, policy=policy or last_task.policy, sinks=(*last_task.sinks, *guarded_sinks(rules)))
    return (*tasks[:-1], last_task, *guarded_tasks(rules, case_step, step))


def _rules_of_on_error(on_error: CaseOnError, task: Task) -> tuple[Rule, ...]:
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
