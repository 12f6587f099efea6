"""The v1 dialect, May to November 2025: a step has a ``type``, or a ``call``.

    type: python, code: ...                           the tool's fields are directly on the step
    type: workbook, name: score                       a task of the workbook, by ``name`` or ``task``
    call: {type: workbook, name: score, with: {...}}  the same in its first form
    type: iterator, collection: ..., task: {...}      a loop over a task of its own; first it was ``type: loop``
                                                      and its collection ``data``
    type: save, storage: postgres, table: ...         only a sink
    loop: {in, iterator}, next: [...]                 a loop over the steps up to its ``end_loop`` (a region)
    end_loop: cities, result: {...}                   where such a loop ends

A step with none of these only routes.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.loops import read_loop
from noetl_compiler.dialects.pagination import read_pagination
from noetl_compiler.dialects.sinks import read_sinks
from noetl_compiler.dialects.tasks import ParseContext, known_fields, read_tool
from noetl_compiler.dialects.v1.outcomes import with_on_error
from noetl_compiler.dialects.v1.routes import read_routes
from noetl_compiler.dialects.v1.tasks import read_call, read_flat_task, read_iterator_tasks
from noetl_compiler.dialects.values import condition, merged_mappings
from noetl_compiler.graph import AdmitRule, Sink, Value
from noetl_compiler.language import keys
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, string_node, value_of
from noetl_compiler.syntax import EMPTY_MAPPING, Loop, Name, Step, Task

__all__ = ["read_step"]

_COLLECTIONS = frozenset({"collection", "in", "items"})
_LOOP_KEYS = _COLLECTIONS | {
    *("element", "iterator", "mode", "concurrency", "max_in_flight", "where", "filter"),
    *("order_by", "limit", "chunk", "chunk_size", "on_error"),
}
_PLAYBOOKS = frozenset({"playbook", "playbooks"})
_ITERATORS = frozenset({"iterator", "loop"})


class _Body(msgspec.Struct, frozen=True):
    """The parts of a step that its type determines.

    ``args``: bound for the whole step, not only its task. ``sinks``: store all results of the loop together.
    """

    loop: Loop | None
    tasks: tuple[Task, ...]
    args: Value = EMPTY_MAPPING
    sinks: tuple[Sink, ...] = ()


def read_step(fields: Fields, name: Name, context: ParseContext) -> Step:
    """Read a step."""
    desc, routes = fields.text("desc", "description"), read_routes(fields)
    ended_loop, result = fields.name("end_loop"), _read_result(fields)
    body = _read_body(fields, name, context)
    step = Step(
        name,
        fields.span,
        desc,
        admit=_read_admission(fields),
        args=body.args,
        loop=body.loop,
        tasks=body.tasks,
        result=value_of(result) if result else None,
        next=routes,
        ended_loop=ended_loop,
        sinks=body.sinks,
    )
    if all(task.span != fields.span for task in body.tasks):
        _warn_of_pagination(fields)
    kind = fields.node.get("type")
    fields.check_keys(
        {
            "type",
            "call",
            "loop",
            "save",
            *known_fields(kind if isinstance(kind, ScalarNode) else None, context.report.tools),
        }
    )
    return step


def _read_result(fields: Fields) -> Node | None:
    """Read ``result``, or ``return``, which may also be the name of a step: of the called playbook, if it calls one."""
    return_node, kind = fields.node.get("return"), fields.node.get("type")
    is_name = isinstance(return_node, ScalarNode) and return_node.text.isidentifier()
    if is_name and isinstance(kind, ScalarNode) and kind.text in _PLAYBOOKS:
        return fields.node_of("result")
    node = fields.node_of("result", "return")
    if isinstance(node, ScalarNode) and node is return_node and is_name:
        text = f"{{{{ {node.text} }}}}"
        return replace(node, text=text, value=text, expressions=(node.span,))
    return node


def _warn_of_pagination(fields: Fields) -> None:
    pagination = read_pagination(fields, fields.report)
    if pagination is not None:
        message = '"pagination" has no effect in a step without a tool of its own'
        fields.report.warning(
            Code.IGNORED_FIELD, pagination.policy.span, message, "write it beside the fields of the tool"
        )


def _read_body(fields: Fields, name: Name, context: ParseContext) -> _Body:
    tool = fields.node_of("tool")
    kind = fields.name("type") or (Name(tool.text, tool.span) if isinstance(tool, ScalarNode) else None)
    if kind is not None and kind.text in _ITERATORS:
        return _read_iterator(fields, name, context)
    body = _read_plain_body(fields, kind, name, context)
    return replace(body, tasks=with_on_error(body.tasks, fields))


def _read_plain_body(fields: Fields, kind: Name | None, name: Name, context: ParseContext) -> _Body:
    loop, call, tool = read_loop(fields.node_of("loop"), context.report), fields.node_of("call"), fields.node_of("tool")
    if call is not None:
        return _Body(loop, read_call(call, name, context), _read_arguments(fields))
    if tool is not None and kind is None:
        return _Body(loop, read_tool(tool, name, context), _read_arguments(fields))
    if loop is not None and kind is None and not fields.node.get("task"):
        return _Body(loop, (), _read_arguments(fields), read_sinks(fields, context.report, "attempt"))
    tasks = read_flat_task(fields, kind, name, context)
    return _Body(loop, tasks, EMPTY_MAPPING if tasks else _read_arguments(fields))


def _read_iterator(fields: Fields, name: Name, context: ParseContext) -> _Body:
    """Read ``type: iterator``: the fields of the loop are directly on the step, its sink stores all results at once."""
    loop = read_loop(fields.node_of("loop"), context.report)
    data_entries = () if loop else _collection_from_data(fields)
    if loop is None:
        loop = read_loop(MappingNode((*data_entries, *fields.take_remaining(_LOOP_KEYS)), fields.span), context.report)
    fields.ignore("enumerate", reason="the index of an iteration is always available as loop.index")
    tasks = read_iterator_tasks(fields, name, loop.element.text if loop else "item", context)
    fields.node_of("name")
    sinks = read_sinks(fields, context.report, "attempt")
    arguments = EMPTY_MAPPING if data_entries else _read_arguments(fields)
    return _Body(loop if tasks else None, tasks, arguments, sinks if tasks else ())


def _collection_from_data(fields: Fields) -> tuple[tuple[ScalarNode, Node], ...]:
    """Return ``data`` as the collection if it is not a mapping of arguments and there is no other collection."""
    data = fields.node.get("data")
    if data is None or isinstance(data, MappingNode) or any(key in fields for key in _COLLECTIONS):
        return ()
    fields.node_of("data")
    message = '"data" of an iterator is its collection'
    fields.report.warning(Code.DEPRECATED_FORM, data.span, message, "write collection")
    return ((string_node("collection", data.span), data),)


def _read_admission(fields: Fields) -> tuple[AdmitRule, ...]:
    """Read ``pass: true`` and ``when``: the step is skipped if ``pass`` is true or ``when`` is false."""
    skip, when = (condition(fields.node_of(key), fields.report) for key in ("pass", "when"))
    skip_rules = (AdmitRule(False, skip.span, skip),) if skip else ()
    return (*skip_rules, AdmitRule(True, when.span, when), AdmitRule(False, when.span)) if when else skip_rules


def _read_arguments(fields: Fields) -> Value:
    """Read ``with`` and its synonyms from a step, for a task that does not read them itself."""
    return merged_mappings(fields, (*keys.LOOSE_INPUT, *keys.INPUT))
