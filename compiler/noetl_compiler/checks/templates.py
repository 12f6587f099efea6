"""The checks of single templates, in one pass: a playbook may have many thousands of templates."""

from __future__ import annotations

from noetl_compiler.checks.conditions import warn_of_wrong_condition
from noetl_compiler.checks.decision_fields import warn_of_misspelt_decisions
from noetl_compiler.checks.early_results import StepOrder, warn_of_early_results
from noetl_compiler.checks.foreign_names import warn_of_foreign_names
from noetl_compiler.checks.hidden_names import HiddenNames
from noetl_compiler.checks.undefined_names import warn_of_undefined_names
from noetl_compiler.codes import Code
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook
from noetl_compiler.syntax_queries import called_task_names
from noetl_compiler.templating.analysis import TemplateAnalysis, analyse_template
from noetl_compiler.templating.template_uses import TemplateUse, template_uses
from noetl_compiler.visible_names import VisibleNames

__all__ = ["check_templates"]


def check_templates(playbook: Playbook, report: Report) -> None:
    """Report NT301 to NT308."""
    if not playbook.steps:
        return
    names, order = VisibleNames(playbook), StepOrder(playbook)
    hidden_names = HiddenNames(playbook, order)
    tasks_with_calls = called_task_names(playbook.steps, playbook.workbook)
    for use in template_uses(playbook):
        analysis = analyse_template(use.template.source)
        _report_problems(use, analysis, report)
        if use.step is not None or use.task is None or use.task.label.text in tasks_with_calls:  # else nothing is bound
            warn_of_undefined_names(use, analysis, names, report)
            warn_of_misspelt_decisions(use, analysis, names, report)
        warn_of_early_results(use, analysis, names, order, report)
        warn_of_foreign_names(use, analysis, names, report)
        hidden_names.warn(use, analysis, report)
        warn_of_wrong_condition(use, analysis, report)


def _report_problems(use: TemplateUse, analysis: TemplateAnalysis, report: Report) -> None:
    """Report NT301 and NT302: invalid Jinja2, unknown filters, nondeterministic functions."""
    for problem in analysis.problems:
        span = report.locator.span(use.template, problem.start, problem.end)
        code = Code.FORBIDDEN_TEMPLATE if problem.forbidden else Code.TEMPLATE_SYNTAX
        report.error(code, span, problem.message, problem.hint)
