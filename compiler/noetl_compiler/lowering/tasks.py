"""Lower tasks: resolve calls of the workbook and jumps, and fill in defaults."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from noetl_compiler import graph, syntax
from noetl_compiler.graph import Sink, Span, Value
from noetl_compiler.graph.contents import pointer, tokens_of
from noetl_compiler.language.keys import PREVIOUS
from noetl_compiler.language.tools import IN_WORKFLOW, sends_headers
from noetl_compiler.language.words import Dialect, Unmatched
from noetl_compiler.lowering.main_parameters import CodeNames, bind_read_names
from noetl_compiler.lowering.older_package import config_for_older_package
from noetl_compiler.lowering.secrets import resolve_keychain_auth, resolve_keychain_sinks
from noetl_compiler.value_merge import mapping_of, overlay, without_names

__all__ = ["lower_tasks"]


def lower_tasks(
    step: syntax.Step,
    args: Value,
    playbook: syntax.Playbook,
    workbook: Mapping[str, syntax.Task],
    secrets: frozenset[str],
    names: CodeNames,
) -> tuple[graph.Task, ...]:
    """Return the pipeline of a step.

    ``args`` are the arguments of the step, which are passed to each task. A loop renders them in each iteration, any
    other step only once, so its tasks read the values. ``secrets`` are the names of the keychain, ``names`` those that
    Python code may read.
    """
    args = args if step.loop else _args_by_reference(args)
    labels = [task.label.text for task in step.tasks]
    resolved_tasks = (_resolve(task, workbook, args) for task in step.tasks)
    bound_tasks = (
        (bind_read_names(task, inherited_input, step, names), inherited_input)
        for task, inherited_input in resolved_tasks
    )
    return tuple(
        _lower_task(*task_and_values, playbook.dialect, labels[:index], secrets)
        for index, task_and_values in enumerate(bound_tasks)
    )


def _args_by_reference(args: Value) -> Value:
    """Return the arguments with each template replaced by a reference to the value that the step has rendered."""
    data, templates = mapping_of(args), dict[str, Span]()
    for path, span in args.templates.items() if data else ():
        name = tokens_of(path)[0]
        if pointer("", name) not in templates:
            templates[pointer("", name)] = span
            data[name] = f"{{{{ input[{name!r}] }}}}"
    return Value(data, templates) if data else args


def _resolve(task: syntax.Task, workbook: Mapping[str, syntax.Task], args: Value) -> tuple[syntax.Task, Value]:
    """Replace a call of a workbook task by that task, overridden by the label and fields of the caller.

    Return it with the input that it inherits from its callers, which the templates of its own input may read.
    """
    inherited_input = args
    while task.workbook is not None:
        called_task = workbook[task.workbook.text]
        inherited_input = overlay(inherited_input, task.input)
        task = replace(
            task,
            kind=called_task.kind,
            config=overlay(called_task.config, task.config),
            input=without_names(called_task.input, mapping_of(task.input)),
            auth=task.auth or called_task.auth,
            timeout=task.timeout or called_task.timeout,
            policy=task.policy or called_task.policy,
            sinks=(*called_task.sinks, *task.sinks),
            set=(*called_task.set, *task.set),
            idempotent=called_task.idempotent if task.idempotent is None else task.idempotent,
            idempotency_key=task.idempotency_key or called_task.idempotency_key,
            output=task.output or called_task.output,
            splices=called_task.splices,
            code=task.code or called_task.code,
            workbook=called_task.workbook,
        )
    return task, inherited_input


def _lower_task(
    task: syntax.Task, inherited_input: Value, dialect: Dialect, earlier_labels: list[str], secrets: frozenset[str]
) -> graph.Task:
    policy, key = task.policy, task.idempotency_key
    config, auth = config_for_older_package(task)
    return graph.Task(
        task.label.text,
        task.kind.text,
        task.kind.text,
        task.span,
        config=config,
        inherited_input=inherited_input,
        input=task.input,
        auth=resolve_keychain_auth(auth, secrets, task.span),
        timeout=task.timeout,
        policy=_lower_policy(policy, earlier_labels, dialect) if policy else None,
        sinks=resolve_keychain_sinks(_sinks(task), secrets),
        set=task.set,
        idempotent=task.idempotent is not False,
        idempotency_key=key.text if key and sends_headers(task.kind.text) else None,
        guard=task.guard,
        output=task.output,
        splices=task.splices,
        code=task.code,
    )


def _sinks(task: syntax.Task) -> tuple[Sink, ...]:
    """Return the sinks. Those of a task that the workflow performs are separate calls, as it has no activity."""
    if task.kind.text not in IN_WORKFLOW:
        return task.sinks
    return tuple(replace(sink, level="task") for sink in task.sinks)


def _lower_policy(policy: syntax.Policy, earlier_labels: list[str], dialect: Dialect) -> graph.Policy:
    unmatched: Unmatched = "continue" if dialect == "v10" else "fail"
    rules = tuple(_lower_rule(rule, earlier_labels) for rule in policy.rules)
    return graph.Policy(rules, policy.unmatched or unmatched, policy.circuit, policy.retry_clause)


def _lower_rule(rule: syntax.Rule, earlier_labels: list[str]) -> graph.Rule:
    if rule.to is None:
        return rule.body
    to = earlier_labels[-1] if rule.to.text in PREVIOUS and earlier_labels else rule.to.text
    return msgspec.structs.replace(rule.body, to=to)
