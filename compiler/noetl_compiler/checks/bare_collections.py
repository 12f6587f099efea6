"""Collections of loops that lack their braces: ``in: workload.cities`` is text, so the loop would run once."""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.graph import Template, Value
from noetl_compiler.report import Report
from noetl_compiler.syntax import Loop, Playbook, Step
from noetl_compiler.templating.check import examine
from noetl_compiler.templating.template_sites import RenderedAt, Use
from noetl_compiler.visible_names import VisibleNames

__all__ = ["forbid_bare_collections"]

_LONGEST = 1_000
"""No expression that somebody forgot to brace has more characters."""


def forbid_bare_collections(playbook: Playbook, report: Report) -> None:
    """NT106. Other literal text is data."""
    if not playbook.steps:
        return
    names = VisibleNames(playbook)
    for step in playbook.steps:
        if step.loop is not None and (text := _bare_expression(step, step.loop, names)):
            message = f'the collection "{text}" is only text, so the loop would run once'
            hint = f'put it into {{{{ }}}}: "{{{{ {text} }}}}"'
            report.error(Code.WRONG_VALUE, step.loop.place, message, hint)


def _bare_expression(step: Step, loop: Loop, names: VisibleNames) -> str:
    """The collection as an expression all of whose names are known here; "" when it is none."""
    collection = loop.body.collection
    text = collection.data.strip() if _is_plain_text(collection) else ""
    if not text or len(text) > _LONGEST:
        return ""
    source = f"{{{{ {text} }}}}"
    facts = examine(source)
    use = Use(Template(source, loop.place), RenderedAt.STEP, step)
    heads = {path.partition(".")[0] for path in facts.reads}
    return text if heads and not facts.problems and all(names.knows(use, head) for head in heads) else ""


def _is_plain_text(collection: Value | None) -> bool:
    return collection is not None and isinstance(collection.data, str) and not collection.templates
