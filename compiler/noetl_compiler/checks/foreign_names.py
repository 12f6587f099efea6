"""Variables of another dialect. They work, for a run binds the names of all of them; a reader is misled."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from noetl_compiler.codes import Code
from noetl_compiler.report import Report
from noetl_compiler.syntax import Dialect, Playbook
from noetl_compiler.templating.check import Facts
from noetl_compiler.templating.uses import Use
from noetl_compiler.templating.words import find_path

__all__ = ["warn_of_foreign_names"]

_OUTCOME = "write result, or response for the body"
_SINCE_V10 = {"ctx": "write vars", "outcome": _OUTCOME}
_FOREIGN: Mapping[Dialect, Mapping[str, str]] = MappingProxyType(
    {
        "v1": {**_SINCE_V10, "iter": "write the iterator's own name"},
        "legacy": {**_SINCE_V10, "output": _OUTCOME, "iter": "write the element's own name"},
        "case": {"outcome": "write response"},
        "v10": {"vars": "write ctx"},
    }
)
"""Dialect -> names it never had -> what it says instead."""


def warn_of_foreign_names(use: Use, facts: Facts, playbook: Playbook, report: Report) -> None:
    """NT304, once a name in a file. A playbook that has ``vars`` of its own may read them."""
    dialect = playbook.dialect
    foreign = _FOREIGN[dialect]
    for name in foreign.keys() & {path.partition(".")[0] for path in facts.reads}:
        if not (name == "vars" and playbook.has_vars) and report.first(f"foreign {name}"):
            span = report.places.span(use.template, *find_path(use.template.source, name))
            message = f'"{name}" is no variable of the dialect "{dialect}"'
            report.warning(Code.FOREIGN_NAME, span, message, foreign[name])
