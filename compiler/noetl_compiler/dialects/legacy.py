"""The legacy dialect, December 2025: ``tool`` is a word, and its fields are directly on the step."""

from __future__ import annotations

from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.loops import read_loop
from noetl_compiler.dialects.routes import read_next
from noetl_compiler.dialects.tasks import ParseContext, known_fields, read_task, read_tool
from noetl_compiler.dialects.values import assigns, mapping_value
from noetl_compiler.graph import Value
from noetl_compiler.language import keys
from noetl_compiler.nodes import ScalarNode, value_of
from noetl_compiler.syntax import Name, Step, Task
from noetl_compiler.value_merge import overlay

__all__ = ["read_step"]


def read_step(fields: Fields, name: Name, around: ParseContext) -> Step:
    """Read a step. A step without a tool only routes; its arguments are bound for its routes."""
    report = around.report
    desc, following = fields.text("desc", "description"), read_next(fields.node_of("next"), report)
    loop = read_loop(fields.node_of("loop"), report)
    extracted = assigns(fields.mapping("vars"), "ctx", report)
    result = fields.node_of("result")
    fields.ignore("as", "pass", why="a step's result has the name of the step")
    tasks = _read_tasks(fields, name, around)
    step = Step(
        name,
        fields.span,
        desc,
        args=Value({}) if tasks else _bound(fields),
        loop=loop,
        tasks=tasks,
        set=extracted,
        result=value_of(result) if result else None,
        next=following,
    )
    tool = fields.node.get("tool")
    fields.close({"tool", *known_fields(tool if isinstance(tool, ScalarNode) else None, around.report.tools)})
    return step


def _read_tasks(fields: Fields, name: Name, around: ParseContext) -> tuple[Task, ...]:
    tool = fields.node_of("tool", "type")
    if tool is None and "sink" in fields:
        tool = ScalarNode("noop", "noop", fields.span, "plain")
    if isinstance(tool, ScalarNode):
        task = read_task(fields, Name(tool.text, tool.span), Name(name.text, name.span), around)
        return (task,) if task else ()
    return read_tool(tool, name, around)


def _bound(fields: Fields) -> Value:
    bound = Value({})
    for key in (*keys.INPUT, "data"):
        bound = overlay(bound, mapping_value(fields.node_of(key), fields.report, key))
    return bound
