"""Read ``return`` and ``on_error`` of a v1 task, which change its outcome.

return: "{{ ... }}"       replaces its result
on_error: continue        a failed call counts as a success
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler import graph
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.language.words import V1_ON_ERROR
from noetl_compiler.nodes import ScalarNode, value_of
from noetl_compiler.syntax import Policy, Rule, Task

__all__ = ["with_on_error", "with_outcome"]


def with_outcome(tasks: tuple[Task, ...], fields: Fields) -> tuple[Task, ...]:
    """Apply ``return`` and ``on_error`` to tasks."""
    # the return of a called playbook names one of its steps
    calls_playbook = any(task.kind.text == "playbook" for task in tasks)
    node = None if calls_playbook else fields.node_of("return")
    rules = (Rule(graph.Rule("continue", node.span, "ok", result=value_of(node))),) if node else ()
    return tuple(_with_rules(task, rules) for task in with_on_error(tasks, fields))


def with_on_error(tasks: tuple[Task, ...], fields: Fields) -> tuple[Task, ...]:
    """Apply an ``on_error`` that is a word; one that names steps belongs to the route of the step."""
    node = fields.node.get("on_error")
    if not isinstance(node, ScalarNode):
        return tasks
    if not tasks:
        fields.ignore("on_error", reason="a step without a call cannot fail")
    continues = fields.choice("on_error", V1_ON_ERROR) == "continue"
    return tuple(_with_rules(task, (Rule(graph.Rule("continue", node.span, "error")),) * continues) for task in tasks)


def _with_rules(task: Task, rules: tuple[Rule, ...]) -> Task:
    """Append policy rules to a task. An error that matches no rule fails the task, as without a policy."""
    if not rules:
        return task
    policy = task.policy or Policy(rules[0].body.span, (), "fail")
    return replace(task, policy=replace(policy, rules=(*policy.rules, *rules)))
