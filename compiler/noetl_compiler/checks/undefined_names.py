"""Template variables that nothing in the playbook defines.

The request may add names to the workload, and so may the parent of a sub-playbook. So an undefined name is a warning,
and allowed where the template tests whether it is defined. Only names that the request cannot define either are
errors.
"""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import template_name_hint
from noetl_compiler.language.defaults import ENTRY_STEP
from noetl_compiler.language.names import (
    BELOW_ITER,
    BELOW_OUTCOME,
    ERROR_NAMES,
    ITERATION,
    OUTCOME,
    PREVIOUS_OUTCOME,
    WORKLOAD,
)
from noetl_compiler.report import Report
from noetl_compiler.templating.analysis import TemplateAnalysis
from noetl_compiler.templating.template_uses import TemplateUse
from noetl_compiler.visible_names import IN_LOOP, VisibleNames

__all__ = ["warn_of_undefined_names"]

_DEFINED_BY_PLAYBOOK_ONLY = {
    "iter": "the names of an iteration are defined in the tasks of its loop",
    "job": "a job has id, uuid and execution_id",
    "results": "its keys are the names of steps",
}
"""Roots whose names the request cannot define -> hint."""

_HINTS = {
    **dict.fromkeys(OUTCOME, "it is defined after a call: read it in the task's rules, in set, or in a route"),
    **dict.fromkeys(
        ("auth", "secret", "secrets", "token"), "templates cannot read credentials: name them in the auth of the tool"
    ),
}
_LOOP_HINTS = dict.fromkeys((*ITERATION, "item", "element"), "it is defined by a loop, and this step has none")
_OUTCOMES = PREVIOUS_OUTCOME | {"_outcome"}
_TASK_HINT = "a task's result is visible only to the tasks after it: set a ctx name to keep it"
_ROOT_HINTS = {
    "ctx": "set it before it is read",
    "event": "an event has name, type, step and payload",
    **dict.fromkeys(("loop", "_loop"), f"a loop has {', '.join(sorted(BELOW_ITER))}"),
}


def warn_of_undefined_names(use: TemplateUse, analysis: TemplateAnalysis, names: VisibleNames, report: Report) -> None:
    """Report NT303."""
    for path in analysis.required_paths:
        head, _, tail = path.partition(".")
        if not names.may_be_bound(use, head):
            _report_name(path, use, names, report)
        elif tail and (names_below := names.names_below(use, head)) is not None:
            name = tail.partition(".")[0]
            if name not in names_below and not names.may_be_bound_by_playbook(use, head):
                _report_name_below(head, name, use, names_below, names, report)
        elif tail and head in _OUTCOMES | ERROR_NAMES and not names.may_be_bound_by_playbook(use, head):
            _report_misspelt_part(path, use, report)


def _report_name(path: str, use: TemplateUse, names: VisibleNames, report: Report) -> None:
    name = path.partition(".")[0]
    has_loop = use.step is None or use.step.loop is not None
    hint = (
        (not has_loop and _LOOP_HINTS.get(name))
        or _HINTS.get(name)
        or (_is_task(name, use) and _TASK_HINT)
        or _hint_for_task_of_step(path, use, names)
        or (name == ENTRY_STEP and f'did you mean "{names.entry}"?')
        or _similar_name(name, names.known_names(use))
        or _hint_for_unnamed_element(name, use)
        or _how_to_declare(name)
    )
    span = report.locator.path_span(use.template, name)
    report.warning(Code.UNDEFINED_NAME, span, f'"{name}" is not defined here', hint)


def _hint_for_task_of_step(path: str, use: TemplateUse, names: VisibleNames) -> str:
    """Return a hint for a task of another step. The result of a step is that of its last task; those of all its tasks
    are in ``results`` below it.
    """
    name, dot, tail = path.partition(".")
    step = next(iter(names.steps_with_task(name)), None)
    if step is None:
        return ""
    step_name = step.name.text
    expression = f"results.{step_name}" if names.may_shadow_result(use, step_name) else step_name
    if step.loop is not None:
        return f'it is a task of the loop "{step_name}", whose results are in {expression}'
    result = expression if len(step.tasks) == 1 else f"{expression}.results.{name}"
    return f'it is a task of the step "{step_name}": write {result}{dot}{tail}'


def _hint_for_unnamed_element(name: str, use: TemplateUse) -> str:
    """Return a hint for a loop without ``iterator``: the name may be meant for its element."""
    loop = use.step.loop if use.step is not None and use.rendered_at in IN_LOOP else None
    is_unnamed = loop is not None and loop.element.span == loop.body.span
    return f"if it is the element of the loop, add iterator: {name} to the loop" if is_unnamed else ""


def _is_task(name: str, use: TemplateUse) -> bool:
    return use.step is not None and any(task.label.text == name for task in use.step.tasks)


def _report_name_below(
    head: str, name: str, use: TemplateUse, names_below: frozenset[str], names: VisibleNames, report: Report
) -> None:
    if head in WORKLOAD and not names_below:
        return  # without a declared workload, all of it comes from the request
    path = f"{head}.{name}"
    span = report.locator.path_span(use.template, path)
    message = f'"{path}" is not defined here'
    step_hint = f"the result of the step is results.{head}" if head in names.results and head != "results" else ""
    if head in _DEFINED_BY_PLAYBOOK_ONLY and not use.is_predicate:
        hint = template_name_hint(name, names_below, head) or step_hint or _DEFINED_BY_PLAYBOOK_ONLY[head]
        report.error(Code.UNDEFINED_NAME, span, message, hint)
    else:
        hint = (
            template_name_hint(name, names_below, head)
            or step_hint
            or (_how_to_declare(name) if head in WORKLOAD else _ROOT_HINTS.get(head, ""))
        )
        report.warning(Code.UNDEFINED_NAME, span, message, hint)


def _how_to_declare(name: str) -> str:
    """Return the hint for a name that a request may add to the workload."""
    return f"if requests provide it (--set {name}=...), declare it under workload with its default, or null"


def _report_misspelt_part(path: str, use: TemplateUse, report: Report) -> None:
    """Report a name such as ``output.error.retriable`` that is similar to one that the outcome has."""
    head, *below_head = path.split(".")
    part, name, *_ = ("error", *below_head, "") if head in ERROR_NAMES else (*below_head, "")
    known_names = BELOW_OUTCOME.get(part, frozenset())
    if name and name not in known_names and (hint := template_name_hint(name, known_names)):
        misspelt_path = f"{head}.{name}" if head in ERROR_NAMES else f"{head}.{part}.{name}"
        span = report.locator.path_span(use.template, misspelt_path)
        report.warning(Code.UNDEFINED_NAME, span, f'"{misspelt_path}" is not defined here', hint)


def _similar_name(name: str, names: frozenset[str]) -> str:
    """Return the hint for a similar name. So many names are defined that only a very similar one is suggested."""
    return template_name_hint(name, names, cutoff=0.75)
