"""Tasks of the syntax tree to tasks of the graph: workbook calls and jumps resolved, defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from noetl_compiler import graph, syntax
from noetl_compiler.graph import Sink, Span, Value
from noetl_compiler.graph.contents import pointer
from noetl_compiler.language.keys import PREVIOUS
from noetl_compiler.language.tools import IN_WORKFLOW, sends_headers
from noetl_compiler.language.words import Dialect, Unmatched
from noetl_compiler.lowering.main_parameters import CodeNames, with_asked_names
from noetl_compiler.lowering.older_package import with_older_package
from noetl_compiler.lowering.secrets import auth_of_keychain, sinks_of_keychain
from noetl_compiler.value_merge import names_in, overlay, without

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
    args = args if step.loop else _by_name(args)
    labels = [task.label.text for task in step.tasks]
    resolved = (_resolve(task, workbook, args) for task in step.tasks)
    asking = ((with_asked_names(task, given, step, names), given) for task, given in resolved)
    return tuple(_lower(*found, playbook.dialect, labels[:index], secrets) for index, found in enumerate(asking))


def _by_name(args: Value) -> Value:
    """Return the arguments with each template replaced by a reference to the value that the step has rendered."""
    data, templates = names_in(args), dict[str, Span]()
    names = {pointer("", name): name for name in data}
    for place, span in args.templates.items() if data else ():
        root = f"/{place.split('/')[1]}"
        if root not in templates:
            templates[root] = span
            data[names[root]] = f"{{{{ input[{names[root]!r}] }}}}"
    return Value(data, templates) if data else args


def _resolve(task: syntax.Task, workbook: Mapping[str, syntax.Task], args: Value) -> tuple[syntax.Task, Value]:
    """A call of a workbook task as that task, with the caller's label and the caller's fields on top.

    What the caller binds is given to the task, so that the task's own input can be made of it.
    """
    given = args
    while task.workbook is not None:
        called = workbook[task.workbook.text]
        given = overlay(given, task.input)
        task = replace(
            task,
            kind=called.kind,
            config=overlay(called.config, task.config),
            input=without(called.input, names_in(task.input)),
            auth=task.auth or called.auth,
            timeout=task.timeout or called.timeout,
            policy=task.policy or called.policy,
            sinks=(*called.sinks, *task.sinks),
            set=(*called.set, *task.set),
            idempotent=called.idempotent if task.idempotent is None else task.idempotent,
            idempotency_key=task.idempotency_key or called.idempotency_key,
            output=task.output or called.output,
            splices=called.splices,
            code=task.code or called.code,
            workbook=called.workbook,
        )
    return task, given


def _lower(task: syntax.Task, given: Value, dialect: Dialect, before: list[str], secrets: frozenset[str]) -> graph.Task:
    policy, key = task.policy, task.idempotency_key
    config, auth = with_older_package(task)
    return graph.Task(
        task.label.text,
        task.kind.text,
        task.kind.text,
        task.span,
        config=config,
        given=given,
        input=task.input,
        auth=auth_of_keychain(auth, secrets, task.span),
        timeout=task.timeout,
        policy=_lower_policy(policy, before, dialect) if policy else None,
        sinks=sinks_of_keychain(_sinks(task), secrets),
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


def _lower_policy(policy: syntax.Policy, before: list[str], dialect: Dialect) -> graph.Policy:
    unmatched: Unmatched = "continue" if dialect == "v10" else "fail"
    rules = tuple(_lower_rule(rule, before) for rule in policy.rules)
    return graph.Policy(rules, policy.unmatched or unmatched, policy.circuit, policy.clause)


def _lower_rule(rule: syntax.Rule, before: list[str]) -> graph.Rule:
    if rule.to is None:
        return rule.body
    to = before[-1] if rule.to.text in PREVIOUS and before else rule.to.text
    return msgspec.structs.replace(rule.body, to=to)
