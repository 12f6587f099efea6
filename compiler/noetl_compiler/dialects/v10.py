"""The v10 dialect, since February 2026, in both its spellings (``outcome, args`` and ``output, input``)."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.final_status import read_status
from noetl_compiler.dialects.holds import read_on_failure
from noetl_compiler.dialects.loops import read_loop
from noetl_compiler.dialects.pagination import read_retry_and_pagination
from noetl_compiler.dialects.policies import read_admission, read_assigns, read_branch_failure, read_enter
from noetl_compiler.dialects.results import read_output
from noetl_compiler.dialects.routes import read_next
from noetl_compiler.dialects.sinks import read_sinks
from noetl_compiler.dialects.spec_defaults import only_total, read_call_defaults
from noetl_compiler.dialects.tasks import ParseContext, read_tool
from noetl_compiler.dialects.values import assigns
from noetl_compiler.graph import AdmitRule, EnterRule, Sink, Timeout, Value
from noetl_compiler.language.constructs.steps import LIFECYCLE, STEP_POLICY, STEP_SPEC
from noetl_compiler.language.words import JOINS, ROUTE_MODES, BranchFailure, Join, RouteMode
from noetl_compiler.nodes import MappingNode, value_of
from noetl_compiler.syntax import NO_DEFAULTS, CallDefaults, Name, Step, Task

__all__ = ["StepSpec", "read_step", "read_step_spec", "with_retry_and_sinks_of_step"]


class StepSpec(NamedTuple):
    """The ``spec`` of a step."""

    admit: tuple[AdmitRule, ...] = ()
    join: Join | None = None
    timeout: Timeout | None = None
    returns: Value | None = None
    ended_loop: Name | None = None
    sinks: tuple[Sink, ...] = ()
    enter: tuple[EnterRule, ...] = ()
    mode: RouteMode | None = None
    branch_failure: BranchFailure | None = None
    defaults: CallDefaults = NO_DEFAULTS


def read_step(fields: ConstructFields, name: Name, context: ParseContext) -> Step:
    """Read a step: admission, loop, tasks, assignments, route."""
    report = context.report
    spec = _read_spec(fields)
    loop = read_loop(fields.node_of("loop"), report)
    task_context = replace(context, default_root="iter" if loop else "ctx")
    output = read_output(fields, "output", "result")
    _warn_of_bare_next(fields)
    step = Step(
        name,
        fields.span,
        fields.text("desc"),
        admit=(*spec.admit, *_read_when(fields)),
        join=spec.join,
        args=fields.names("input"),
        loop=loop,
        tasks=with_retry_and_sinks_of_step(fields, read_tool(fields.node_of("tool"), name, task_context), task_context),
        set=(*read_assigns(fields, "ctx"), *assigns(fields.mapping("vars"), "ctx", report)),
        result=spec.returns,
        next=read_next(fields.node_of("next"), report, spec.mode),
        timeout=fields.timeout() or spec.timeout,
        ended_loop=spec.ended_loop,
        sinks=spec.sinks,
        enter=spec.enter,
        on_failure=read_on_failure(fields),
        status=read_status(fields),
        branch_failure=spec.branch_failure,
        defaults=replace(spec.defaults, output=output or spec.defaults.output),
    )
    fields.check_keys()
    return step


def with_retry_and_sinks_of_step(fields: Fields, tasks: tuple[Task, ...], context: ParseContext) -> tuple[Task, ...]:
    """Move a step-level ``retry`` or ``sink`` of older dialects to the step's last task."""
    retry = read_retry_and_pagination(fields, context.report)
    sinks = read_sinks(fields, context.report, "task" if retry and retry.page_sinks else "attempt")
    if not tasks or not (retry or sinks):
        return tasks
    last = tasks[-1]
    policy = last.policy or (retry.policy if retry else None)
    page_sinks = retry.page_sinks if retry else ()
    return (*tasks[:-1], replace(last, policy=policy, sinks=(*last.sinks, *page_sinks, *sinks)))


def _read_when(fields: ConstructFields) -> tuple[AdmitRule, ...]:
    """Read ``when`` on a step, the short form of admission."""
    when = fields.condition("when")
    return (AdmitRule(True, when.span, when), AdmitRule(False, when.span)) if when else ()


def _warn_of_bare_next(fields: Fields) -> None:
    """Warn of ``next: end`` and of lists, which are older forms."""
    node = fields.node_of("next")
    if node is None or isinstance(node, MappingNode) or not fields.report.first_time("deprecated next"):
        return
    message, successor = '"next" in this form is from an older dialect', "write next: {arcs: [{step: ...}]}"
    fields.report.warning(Code.DEPRECATED_FORM, node.span, message, successor)


def _read_spec(fields: Fields) -> StepSpec:
    spec = ConstructFields.nested(fields, "spec", STEP_SPEC)
    if spec is None:
        return StepSpec()
    step_spec = read_step_spec(spec)
    spec.check_keys()
    return step_spec


def read_step_spec(spec: ConstructFields) -> StepSpec:
    """Read the fields of a step's ``spec``, whose keys the caller checks."""
    policy = ConstructFields.nested(spec, "policy", STEP_POLICY)
    policy = policy or ConstructFields.empty(spec.span, spec.report, STEP_POLICY)
    spec_timeout = spec.timeout()
    admit, spec_timeout = read_admission(policy), spec_timeout or _read_lifecycle(policy)
    defaults, branch_failure = read_call_defaults(spec, policy, spec_timeout, "ctx"), read_branch_failure(policy)
    policy.check_keys()
    returns = spec.node_of("returns")
    return StepSpec(
        admit,
        spec.choice("join", JOINS),
        only_total(spec_timeout),
        value_of(returns) if returns else None,
        spec.name("end_loop"),
        read_sinks(spec, spec.report, "attempt"),
        read_enter(spec),
        spec.choice("next_mode", ROUTE_MODES),
        branch_failure,
        defaults,
    )


def _read_lifecycle(policy: Fields) -> Timeout | None:
    lifecycle = ConstructFields.nested(policy, "lifecycle", LIFECYCLE)
    if lifecycle is None:
        return None
    limits = [lifecycle.seconds(key) for key in ("timeout_s", "deadline_s")]
    lifecycle.check_keys()
    return Timeout(total=_shorter(*limits)) if any(limits) else None


def _shorter(first: Value | None, second: Value | None) -> Value | None:
    """Return the shorter of two timeouts, because both apply; a template counts as shorter."""
    if first is None or second is None:
        return first or second
    return min((first, second), key=lambda limit: limit.data if not limit.templates else 0.0)
