"""``status`` on steps other than the final one, whose status is that of the run."""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook
from noetl_compiler.syntax_queries import final_name_of

__all__ = ["forbid_status_of_other_steps"]


def forbid_status_of_other_steps(playbook: Playbook, report: Report) -> None:
    """Report NT102."""
    final = final_name_of(playbook)
    for step in playbook.steps:
        if step.status is not None and step.name.text != final:
            message = f'only the final step "{final}" may have "status"'
            report.error(Code.UNKNOWN_KEY, step.status.span, message, f'move it to the step "{final}"')
