"""Variables of another dialect. They work, because a run binds the names of all dialects, but mislead readers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from noetl_compiler.codes import Code
from noetl_compiler.language.words import Dialect
from noetl_compiler.nodes import MappingNode, Node, SequenceNode
from noetl_compiler.report import Report
from noetl_compiler.templating.analysis import TemplateAnalysis
from noetl_compiler.templating.template_uses import TemplateUse
from noetl_compiler.visible_names import VisibleNames

__all__ = ["warn_of_foreign_names"]

_VARS = "vars"
_SETTERS = frozenset({"vars", "set_vars"})

_OUTCOME = "write result, or response for the body"
_NEW_IN_V10 = {"ctx": "write vars", "outcome": _OUTCOME}
_FOREIGN: Mapping[Dialect, Mapping[str, str]] = MappingProxyType(
    {
        "v1": {**_NEW_IN_V10, "iter": "write the iterator's own name"},
        "legacy": {**_NEW_IN_V10, "output": _OUTCOME, "iter": "write the element's own name"},
        "case": {"outcome": "write response"},
        "v10": {_VARS: "write ctx"},
    }
)
"""Dialect -> name of another dialect -> hint."""


def warn_of_foreign_names(use: TemplateUse, analysis: TemplateAnalysis, names: VisibleNames, report: Report) -> None:
    """Report NT304, once per name and file. A playbook may read ``vars`` that it sets, and names that it binds."""
    foreign = _FOREIGN[names.dialect]
    for name in foreign.keys() & analysis.root_names:
        if names.may_be_bound_by_playbook(use, name):
            continue
        if report.first_time(f"foreign {name}") and not (name == _VARS and _sets_vars(report.root)):
            span = report.locator.path_span(use.template, name)
            message = f'"{name}" is not a variable of the dialect "{names.dialect}"'
            report.warning(Code.FOREIGN_NAME, span, message, foreign[name])


def _sets_vars(node: Node | None) -> bool:
    if isinstance(node, MappingNode):
        return any(key.text in _SETTERS or _sets_vars(item) for key, item in node.entries)
    return isinstance(node, SequenceNode) and any(_sets_vars(item) for item in node.items)
