"""Templates that cannot work: bad Jinja2, unknown filters, parts that are not deterministic."""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook
from noetl_compiler.template_uses import uses
from noetl_compiler.templates import check

__all__ = ["forbid_bad_templates"]


def forbid_bad_templates(playbook: Playbook, report: Report) -> None:
    """NT301 and NT302."""
    for use in uses(playbook):
        for problem in check(use.template.source):
            span = report.places.span(use.template, problem.start, problem.end)
            code = Code.FORBIDDEN_TEMPLATE if problem.forbidden else Code.TEMPLATE_SYNTAX
            report.error(code, span, problem.message, problem.hint)
