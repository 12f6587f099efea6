"""The legacy dialect, December 2025: ``tool`` is a word, and its fields are directly on the step."""

from __future__ import annotations

from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.loops import read_loop
from noetl_compiler.dialects.routes import read_next
from noetl_compiler.dialects.tasks import ParseContext, known_fields, read_task, read_tool
from noetl_compiler.dialects.values import assigns, merged_mappings
from noetl_compiler.graph import Value
from noetl_compiler.language import keys
from noetl_compiler.nodes import ScalarNode, string_node, value_of
from noetl_compiler.syntax import Name, Step, Task

__all__ = ["read_step"]


def read_step(fields: Fields, name: Name, context: ParseContext) -> Step:
    """Read a step. A step without a tool only routes; its arguments are bound for its routes."""
    report = context.report
    desc, routes = fields.text("desc", "description"), read_next(fields.node_of("next"), report)
    loop = read_loop(fields.node_of("loop"), report)
    assignments = assigns(fields.mapping("vars"), "ctx", report)
    result = fields.node_of("result")
    fields.ignore("as", "pass", reason="a step's result has the name of the step")
    tasks = _read_tasks(fields, name, context)
    step = Step(
        name,
        fields.span,
        desc,
        args=Value({}) if tasks else merged_mappings(fields, (*keys.INPUT, "data")),
        loop=loop,
        tasks=tasks,
        set=assignments,
        result=value_of(result) if result else None,
        next=routes,
    )
    tool = fields.node.get("tool")
    fields.check_keys({"tool", *known_fields(tool if isinstance(tool, ScalarNode) else None, context.report.tools)})
    return step


def _read_tasks(fields: Fields, name: Name, context: ParseContext) -> tuple[Task, ...]:
    tool = fields.node_of("tool", "type")
    if tool is None and "sink" in fields:
        tool = string_node("noop", fields.span)
    if isinstance(tool, ScalarNode):
        task = read_task(fields, Name(tool.text, tool.span), Name(name.text, name.span), context)
        return (task,) if task else ()
    return read_tool(tool, name, context)
