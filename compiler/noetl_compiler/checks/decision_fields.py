"""Misspelt fields of decisions: of the result of an approval, and of the form in it."""

from __future__ import annotations

from typing import cast

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import template_name_hint
from noetl_compiler.graph import Json
from noetl_compiler.language.names import PREVIOUS_OUTCOME
from noetl_compiler.language.tool_results import DECISION
from noetl_compiler.report import Report
from noetl_compiler.syntax import Task
from noetl_compiler.templating.analysis import TemplateAnalysis
from noetl_compiler.templating.template_uses import TemplateUse
from noetl_compiler.value_merge import mapping_of
from noetl_compiler.visible_names import VisibleNames

__all__ = ["warn_of_misspelt_decisions"]

_FORM = "form"


def warn_of_misspelt_decisions(
    use: TemplateUse, analysis: TemplateAnalysis, names: VisibleNames, report: Report
) -> None:
    """Report NT303 for a field that is similar to one of the decision, or of its form."""
    if not names.approvals:
        return
    for path in analysis.required_paths:
        parts = path.split(".")
        task, index = _approval(parts, use, names)
        if task is None:
            continue
        known_names = DECISION.keys()
        form: Json = mapping_of(task.config).get(_FORM)
        if parts[index : index + 1] == [_FORM] and isinstance(form, dict):
            known_names, index = cast("dict[str, Json]", form).keys(), index + 1
        name = next(iter(parts[index:]), "")
        if name and name not in known_names and (hint := template_name_hint(name, known_names)):
            misspelt_path = ".".join(parts[: index + 1])
            span = report.locator.path_span(use.template, misspelt_path)
            report.warning(Code.UNDEFINED_NAME, span, f'"{misspelt_path}" is not defined here', hint)


def _approval(parts: list[str], use: TemplateUse, names: VisibleNames) -> tuple[Task | None, int]:
    """Return the approval whose decision the path reads, and the index of the decision's field in the path."""
    head, *tail = parts
    if (
        head in PREVIOUS_OUTCOME
        and tail[:1] == ["data"]
        and use.step is not None
        and not names.may_be_bound_by_playbook(use, head)
    ):
        return names.approvals.get(use.step.name.text), 2
    if head in names.approvals and not names.may_shadow_result(use, head):
        return names.approvals[head], 1
    if head in ("results", "steps") and tail and not names.may_be_bound_by_playbook(use, head):
        return names.approvals.get(tail[0]), 2
    return None, 0
