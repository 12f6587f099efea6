"""Read the route of a v1 step: ``next`` or ``case``, with forms that predate the common grammar of routes.

next: [{step: a, city: "{{ city }}"}]             names bound in the target beside its name
next: [{step: a}, {when, then: [{step: b}]}]      a step before a choice follows in any case
on_error: [{step: a}]                             the step that follows a failure
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related, did_you_mean
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.routes import ROUTE_KEYS, read_next
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, string_node
from noetl_compiler.report import Report
from noetl_compiler.syntax import Next

__all__ = ["read_routes"]

Entries = tuple[tuple[ScalarNode, Node], ...]

_ARGUMENTS_KEY = "with"
_NESTED_KEYS = frozenset({"then", "else"})


def read_routes(fields: Fields) -> Next | None:
    """Read ``next`` or ``case``, which has the same grammar."""
    case, next_node = fields.node_of("case"), fields.node_of("next")
    if case is not None and next_node is not None:
        related = (Related(next_node.span, '"next" is here'),)
        message = '"case" and "next" both choose the next step'
        fields.report.error(Code.CONFLICTING_FIELDS, case.span, message, "keep one of them", related)
    return _with_on_error(_read_arcs(next_node or case, fields.report), fields)


def _read_arcs(node: Node | None, report: Report) -> Next | None:
    return _with_unconditional_targets(read_next(_move_arguments(node, report) if node else None, report))


def _with_on_error(routes: Next | None, fields: Fields) -> Next | None:
    """Add the arcs of an ``on_error`` that names steps. They are followed after a failure."""
    node = fields.node.get("on_error")
    if node is None or isinstance(node, ScalarNode):
        return routes
    fields.node_of("on_error")
    error_routes = _read_arcs(node, fields.report)
    if error_routes is None:
        return routes
    groups = tuple(tuple(replace(arc, on_status="error") for arc in group) for group in error_routes.groups)
    return replace(routes, groups=(*routes.groups, *groups)) if routes else replace(error_routes, groups=groups)


def _with_unconditional_targets(routes: Next | None) -> Next | None:
    """Make steps named before a choice unconditional targets; those after it apply if nothing matched."""
    if routes is None or routes.mode == "inclusive" or routes.groups[0][0].when is not None:
        return routes
    unconditional, *choices = routes.groups
    groups = [(*group, *unconditional) for group in choices]
    has_else = any(group[0].when is None for group in choices)
    return replace(routes, groups=tuple(groups) if has_else else (*groups, unconditional))


def _move_arguments(node: Node, report: Report) -> Node:
    """Move templates next to a step's name into the arguments of that step."""
    if isinstance(node, SequenceNode):
        return replace(node, items=tuple(_move_arguments(item, report) for item in node.items))
    if not isinstance(node, MappingNode):
        return node
    arguments = tuple(entry for entry in node.entries if node.get("step") and _is_argument(*entry))
    for key, _ in arguments:
        message = f'"{key.text}" beside "step" is read as an argument of that step'
        report.warning(Code.DEPRECATED_FORM, key.span, message, 'write it below "with"')
    other_entries = (entry for entry in node.entries if entry not in arguments)
    entries = tuple(
        (key, _move_arguments(item, report) if key.text in _NESTED_KEYS else item) for key, item in other_entries
    )
    return replace(node, entries=_merge_arguments(entries, arguments))


def _is_argument(key: ScalarNode, node: Node) -> bool:
    """Whether a key is an argument; a misspelt key with a template is not."""
    is_template = isinstance(node, ScalarNode) and node.template_span is not None
    return is_template and key.text not in ROUTE_KEYS and not did_you_mean(key.text, ROUTE_KEYS)


def _merge_arguments(entries: Entries, arguments: Entries) -> Entries:
    if not arguments:
        return entries
    written_arguments = next(
        (item for key, item in entries if key.text == _ARGUMENTS_KEY and isinstance(item, MappingNode)), None
    )
    all_arguments = MappingNode(
        (*(written_arguments.entries if written_arguments else ()), *arguments), arguments[0][1].span
    )
    key = string_node(_ARGUMENTS_KEY, arguments[0][0].span)
    return (*(entry for entry in entries if entry[1] is not written_arguments), (key, all_arguments))
