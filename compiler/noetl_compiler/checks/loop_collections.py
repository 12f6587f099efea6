"""Loop collections that are not lists: an expression without braces, a string, a number.

The loop runs once over such a value, which is never intended.
"""

from __future__ import annotations

from typing import cast

from noetl_compiler.codes import Code
from noetl_compiler.graph import Json, Template, Value
from noetl_compiler.graph.contents import pointer
from noetl_compiler.language.names import WORKLOAD
from noetl_compiler.report import Report
from noetl_compiler.syntax import Loop, Playbook, Step
from noetl_compiler.templating.analysis import analyse_template
from noetl_compiler.templating.paths import lone_path
from noetl_compiler.templating.template_uses import RenderedAt, TemplateUse
from noetl_compiler.visible_names import VisibleNames

__all__ = ["check_loop_collections"]

_MAX_EXPRESSION_LENGTH = 1_000
"""The number of characters up to which a string is checked for missing braces."""


def check_loop_collections(playbook: Playbook, report: Report) -> None:
    """Report NT106 for an expression without braces, NT406 for other values that are not lists."""
    for step in playbook.steps:
        if step.loop is None or (collection := step.loop.body.collection) is None:
            continue
        if collection.templates:
            _warn_of_workload_value(collection, playbook, report)
        elif expression := _bare_expression(collection, step, step.loop, playbook):
            message = f'the collection "{expression}" is a plain string, so the loop would run once'
            hint = f'put it in {{{{ }}}}: "{{{{ {expression} }}}}"'
            report.error(Code.WRONG_VALUE, step.loop.collection_span, message, hint)
        elif isinstance(collection.data, str | int | float):
            message = f"the loop runs once: its collection is {_type_of(collection.data)}, not a list"
            hint = "write a list, or an expression in {{ }}"
            report.warning(Code.LOOP_OVER_TEXT, step.loop.collection_span, message, hint)


def _type_of(data: str | float) -> str:
    return "a string" if isinstance(data, str) else "true or false" if isinstance(data, bool) else "a number"


def _bare_expression(collection: Value, step: Step, loop: Loop, playbook: Playbook) -> str:
    """Return the collection as an expression, if it is one and all its names are defined; else ""."""
    text = collection.data.strip() if isinstance(collection.data, str) else ""
    if not text or len(text) > _MAX_EXPRESSION_LENGTH:
        return ""
    source = f"{{{{ {text} }}}}"
    analysis = analyse_template(source)
    use = TemplateUse(Template(source, loop.collection_span), RenderedAt.STEP, step)
    heads = analysis.root_names
    if not heads or analysis.problems:
        return ""
    names = VisibleNames(playbook)
    return text if all(names.may_be_bound(use, head) for head in heads) else ""


def _warn_of_workload_value(collection: Value, playbook: Playbook, report: Report) -> None:
    """Warn of a workload value that is no list. An empty one is a placeholder for the value of the request."""
    path = lone_path(str(collection.data)) if "" in collection.templates else None
    value = _workload_default(path, playbook) if path is not None else None
    if isinstance(value, str | int | float) and str(value).strip() not in ("", "0"):
        message = f'the loop runs once: "{path}" is {_type_of(value)}, not a list'
        report.warning(Code.LOOP_OVER_TEXT, collection.templates[""], message, "make it a list in the workload")


def _workload_default(path: str, playbook: Playbook) -> Json:
    """Return the value of a path in the workload, with or without the prefix ``workload``; None for a template."""
    root, *names = path.split(".")
    if root not in WORKLOAD:
        if any(step.name.text == root for step in playbook.steps):
            return None
        names = [root, *names]
    if "".join(pointer("", name) for name in names) in playbook.workload.templates:
        return None
    value: Json = playbook.workload.data
    for name in names:
        value = cast("dict[str, Json]", value).get(name) if isinstance(value, dict) else None
    return value
