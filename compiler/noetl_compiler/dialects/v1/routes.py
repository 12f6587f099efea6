"""Read the route of a v1 step: ``next`` or ``case``, with forms that predate the common grammar of routes.

next: [{step: a, city: "{{ city }}"}]             names bound in the target beside its name
next: [{step: a}, {when, then: [{step: b}]}]      a step before a choice is a target whatever is chosen
on_error: [{step: a}]                             where a failure leads
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related, nearest
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.routes import ROUTE_KEYS, read_next
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.report import Report
from noetl_compiler.syntax import Next

__all__ = ["read_edges"]

Entries = tuple[tuple[ScalarNode, Node], ...]

_BOUND = "with"
_NESTED = frozenset({"then", "else"})


def read_edges(fields: Fields) -> Next | None:
    """Read ``next``, or ``case``, which the whitepaper calls its general form and which has the same grammar."""
    case, following = fields.node_of("case"), fields.node_of("next")
    if case is not None and following is not None:
        related = (Related(following.span, '"next" is here'),)
        message = '"case" and "next" both choose the next step'
        fields.report.error(Code.CONFLICTING_FIELDS, case.span, message, "keep one of them", related)
    return _with_failing(_read_routes(following or case, fields.report), fields)


def _read_routes(node: Node | None, report: Report) -> Next | None:
    return _with_direct(read_next(_with_bound(node, report) if node else None, report))


def _with_failing(found: Next | None, fields: Fields) -> Next | None:
    """Add the edges of an ``on_error`` that names steps, followed after a failure."""
    node = fields.node.get("on_error")
    if node is None or isinstance(node, ScalarNode):
        return found
    fields.node_of("on_error")
    failing = _read_routes(node, fields.report)
    if failing is None:
        return found
    groups = tuple(tuple(replace(arc, on="error") for arc in group) for group in failing.groups)
    return replace(found, groups=(*found.groups, *groups)) if found else replace(failing, groups=groups)


def _with_direct(found: Next | None) -> Next | None:
    """Make steps named before a choice unconditional targets; those after it apply if nothing matched."""
    if found is None or found.mode == "inclusive" or found.groups[0][0].when is not None:
        return found
    direct, *choices = found.groups
    groups = [(*group, *direct) for group in choices]
    is_closed = any(group[0].when is None for group in choices)
    return replace(found, groups=tuple(groups) if is_closed else (*groups, direct))


def _with_bound(node: Node, report: Report) -> Node:
    """Move templates next to a step's name into the arguments of that step."""
    if isinstance(node, SequenceNode):
        return replace(node, items=tuple(_with_bound(item, report) for item in node.items))
    if not isinstance(node, MappingNode):
        return node
    loose = tuple(entry for entry in node.entries if node.get("step") and _is_bound(*entry))
    for key, _ in loose:
        message = f'"{key.text}" beside "step" is read as an argument of that step'
        report.warning(Code.DEPRECATED_FORM, key.span, message, 'write it below "with"')
    own = (entry for entry in node.entries if entry not in loose)
    entries = tuple((key, _with_bound(item, report) if key.text in _NESTED else item) for key, item in own)
    return replace(node, entries=_merged(entries, loose))


def _is_bound(key: ScalarNode, node: Node) -> bool:
    """Whether a key is an argument; a misspelt key with a template is not."""
    is_template = isinstance(node, ScalarNode) and node.template_span is not None
    return is_template and key.text not in ROUTE_KEYS and not nearest(key.text, ROUTE_KEYS)


def _merged(entries: Entries, loose: Entries) -> Entries:
    if not loose:
        return entries
    given = next((item for key, item in entries if key.text == _BOUND and isinstance(item, MappingNode)), None)
    bound = MappingNode((*(given.entries if given else ()), *loose), loose[0][1].span)
    key = ScalarNode(_BOUND, _BOUND, loose[0][0].span, "plain")
    return (*(entry for entry in entries if entry[1] is not given), (key, bound))
