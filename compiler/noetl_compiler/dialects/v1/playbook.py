"""Conversions of a v1 playbook that need the whole document.

Arguments of an arc are bound in its target and remain visible in all later steps, as v1 has a single context. So each
arc also sets them in ``ctx``, except those with the name of a step, which is bound to its result.

The results of a loop are also bound to ``<loop>_results``: the loop sets that name if a template reads it. In the
``result`` of the step that ends a loop over steps, the name is always bound.

An arc may lead to a task of the workbook: a step of that name is added, which calls the task.

The connection and commands of a database may be among the arguments of a call. In the call of a workbook task, too,
whose kind is known only here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from noetl_compiler.graph import Assign, Value
from noetl_compiler.graph.contents import pointer
from noetl_compiler.language.names import results_name
from noetl_compiler.language.tool_description import ToolDescription
from noetl_compiler.language.tools import KINDS
from noetl_compiler.syntax import Arc, Name, Playbook, Step, Task
from noetl_compiler.syntax_queries import arcs_of
from noetl_compiler.templating.analysis import analyse_template
from noetl_compiler.templating.template_uses import RenderedAt, TemplateUse, template_uses
from noetl_compiler.value_merge import mapping_of, overlay, select_names, without_names

__all__ = ["convert_playbook"]


def convert_playbook(playbook: Playbook) -> Playbook:
    """Return the playbook with these conversions applied."""
    workbook = {task.label.text: task for task in playbook.workbook}
    playbook = replace(playbook, steps=(*playbook.steps, *_steps_for_workbook_tasks(playbook, workbook)))
    names = frozenset(step.name.text for step in playbook.steps)
    loops = _loops_with_read_results(playbook)
    steps = (_with_results(_with_arguments_in_ctx(step, names), loops) for step in playbook.steps)
    return replace(
        playbook,
        steps=tuple(
            replace(step, tasks=tuple(_with_tool_fields(task, workbook) for task in step.tasks)) for step in steps
        ),
        workbook=tuple(_with_tool_fields(task, workbook) for task in playbook.workbook),
    )


def _steps_for_workbook_tasks(playbook: Playbook, workbook: Mapping[str, Task]) -> Iterator[Step]:
    """Yield a step for each workbook task that is the target of an arc."""
    known_names = {step.name.text for step in playbook.steps}
    for arc in (arc for step in playbook.steps for arc in arcs_of(step)):
        name = arc.target
        if name.text in workbook and name.text not in known_names:
            known_names.add(name.text)
            task = Task(name, Name("workbook", name.span), name.span, workbook=name)
            yield Step(name, name.span, tasks=(task,))


def _loops_with_read_results(playbook: Playbook) -> frozenset[str]:
    """Return the loops whose ``<loop>_results`` a template reads, apart from the result of their own end."""
    loops = {results_name(step.name.text): step.name.text for step in playbook.steps if step.loop}
    if not loops:
        return frozenset()
    return frozenset(
        loops[name]
        for use in template_uses(playbook)
        for name in loops.keys() & analyse_template(use.template.source).root_names
        if not _is_result_of_end(use, loops[name])
    )


def _is_result_of_end(use: TemplateUse, loop: str) -> bool:
    ended_loop = use.step.ended_loop if use.step is not None else None
    return use.rendered_at is RenderedAt.AFTER and ended_loop is not None and ended_loop.text == loop


def _with_arguments_in_ctx(step: Step, names: frozenset[str]) -> Step:
    if step.next is None:
        return step
    groups = tuple(tuple(_with_argument_assignments(arc, names) for arc in group) for group in step.next.groups)
    return replace(step, next=replace(step.next, groups=groups))


def _with_argument_assignments(arc: Arc, names: frozenset[str]) -> Arc:
    assignments = tuple(_assign(name, arc) for name in mapping_of(arc.args) if name not in names)
    return replace(arc, set=(*assignments, *arc.set)) if assignments else arc


def _with_results(step: Step, loops: frozenset[str]) -> Step:
    name = step.name
    if name.text not in loops:
        return step
    value = Value(f"{{{{ results[{name.text!r}] }}}}", {"": name.span})
    return replace(step, set=(*step.set, Assign(f"ctx.{results_name(name.text)}", value, name.span)))


def _assign(name: str, arc: Arc) -> Assign:
    argument, root = select_names(arc.args, [name]), pointer("", name)
    templates = {path.removeprefix(root): span for path, span in argument.templates.items()}
    return Assign(f"ctx.{name}", Value(mapping_of(argument)[name], templates), arc.span)


def _with_tool_fields(task: Task, workbook: Mapping[str, Task]) -> Task:
    """Move the tool's fields from the arguments to the config; the task's own commands take precedence.

    The call of a workbook task also keeps them as arguments, as the task may read them by name.
    """
    called_task = _resolve_call(task, workbook)
    kind = KINDS.get(called_task.kind.text, ToolDescription())
    own_fields = mapping_of(called_task.config).keys() | mapping_of(task.config).keys()
    commands = {name for group in kind.needs for name in group}
    moved_names = (kind.bound_fields - (commands if own_fields & commands else set())) & mapping_of(task.input).keys()
    if not moved_names:
        return task
    config = overlay(select_names(task.input, moved_names), task.config)
    return replace(
        task, config=config, input=without_names(task.input, moved_names) if task.workbook is None else task.input
    )


def _resolve_call(task: Task, workbook: Mapping[str, Task]) -> Task:
    """Follow calls of workbook tasks to the task that is finally called."""
    visited_tasks: set[str] = set()
    while task.workbook is not None and task.workbook.text in workbook and task.workbook.text not in visited_tasks:
        visited_tasks.add(task.workbook.text)
        task = workbook[task.workbook.text]
    return task
