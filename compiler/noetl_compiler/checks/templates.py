"""Templates that cannot work: bad Jinja2, unknown filters, parts that are not deterministic.

The tree knows where a template's text stands; the YAML nodes know each expression in it, so a finding is
placed at the expression it is in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import cast

import msgspec

from noetl_compiler.codes import Code
from noetl_compiler.graph import Json, Template, Value
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook
from noetl_compiler.templates import Problem, check

__all__ = ["forbid_bad_templates"]


def forbid_bad_templates(playbook: Playbook, report: Report) -> None:
    """NT301 and NT302."""
    for template in _templates(playbook):
        for problem in check(template.source):
            _report(template, problem, report)


def _report(template: Template, problem: Problem, report: Report) -> None:
    places = report.expressions.get(template.span, ())
    known = problem.expression is not None and problem.expression < len(places)
    span = places[problem.expression] if known and problem.expression is not None else template.span
    code = Code.FORBIDDEN_TEMPLATE if problem.forbidden else Code.TEMPLATE_SYNTAX
    report.error(code, span, problem.message, problem.hint)


def _templates(part: object) -> Iterator[Template]:
    """Every template in a part of the tree, whatever it is made of."""
    if isinstance(part, Template):
        yield part
    elif isinstance(part, Value):
        for pointer, span in part.templates.items():
            yield Template(_at(part.data, pointer), span)
    elif isinstance(part, tuple):
        for item in cast("tuple[object, ...]", part):
            yield from _templates(item)
    else:
        for name in _field_names(part):
            yield from _templates(getattr(part, name))


def _field_names(part: object) -> tuple[str, ...]:
    if dataclasses.is_dataclass(part):
        return tuple(field.name for field in dataclasses.fields(part))
    return part.__struct_fields__ if isinstance(part, msgspec.Struct) else ()


def _at(data: Json, pointer: str) -> str:
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        data = cast("Json", data[name] if isinstance(data, dict) else data[int(token)])
    return str(data)
