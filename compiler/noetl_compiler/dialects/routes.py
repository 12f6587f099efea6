"""Read ``next`` in all its forms.

next: end                                         one step
next: [a, b]                                      several in parallel
next: [{step: a, args: {...}}]                    with names bound in the target
next: [{when, then: [{step, args}]}, {else: ...}] the first that matches, all its steps at once
next: [{when, then, else}]                        the same in one entry
next: {spec: {mode, on_no_match}, arcs: [{step, when, set}, {when, then: [{step, input}]}]}
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import kind_of
from noetl_compiler.dialects.policies import read_assigns
from noetl_compiler.dialects.values import mapping_value
from noetl_compiler.graph import Template, Value
from noetl_compiler.language import keys
from noetl_compiler.language.constructs.routes import ARCS, CHOICE, NEXT_SPEC, TARGET
from noetl_compiler.language.words import NO_MATCH, ON_STATUS, ROUTE_MODES, RouteMode
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.report import Report
from noetl_compiler.syntax import Arc, Name, Next
from noetl_compiler.templating.default_on_status import default_on_status
from noetl_compiler.value_merge import overlay

__all__ = ["ROUTE_KEYS", "read_next"]


ROUTE_KEYS = frozenset({*TARGET.by_name, *CHOICE.by_name})
"""Every key that a route may have."""

Group = tuple[Arc, ...]


def read_next(node: Node | None, report: Report, mode: RouteMode | None = None) -> Next | None:
    """Read the route of a step, None if it has none. With a ``mode``, each entry of a list is a group of its own."""
    if node is None:
        return None
    if isinstance(node, MappingNode) and (node.get("arcs") or node.get("spec")):
        return _read_arcs(ConstructFields(node, report, ARCS), mode)
    items = node.items if isinstance(node, SequenceNode) else (node,)
    groups = _with_else_after_failures(_read_list(items, report) if mode is None else _read_entries(items, report))
    return Next(node.span, mode or _mode_of(groups), groups) if groups else None


def _mode_of(groups: tuple[Group, ...]) -> RouteMode:
    """Return inclusive for a list without conditions, exclusive for one with a condition."""
    return "exclusive" if any(arc.is_conditional for group in groups for arc in group) else "inclusive"


def _read_arcs(fields: ConstructFields, mode: RouteMode | None) -> Next | None:
    spec = ConstructFields.nested(fields, "spec", NEXT_SPEC)
    mode = (spec.choice("mode", ROUTE_MODES) if spec else None) or mode or "exclusive"
    on_no_match = spec.choice("on_no_match", NO_MATCH) if spec else None
    if spec:
        spec.check_keys()
    arcs = (group for item in fields.items("arcs") for group in _read_arc(item, fields.report) if group)
    groups = _with_else_after_failures(tuple(arcs))
    fields.check_keys()
    return Next(fields.span, mode, groups, on_no_match) if groups else None


class _ElseGroup(tuple[Arc, ...]):
    """The arcs of an ``else``."""

    __slots__ = ()


def _with_else_after_failures(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Make an ``else`` match failures too if the condition of another route reads the outcome (semantics.md 34)."""
    reads_outcome = any(
        arc.when is not None and default_on_status(arc.when) == "any" for group in groups for arc in group
    )
    return tuple(
        tuple(replace(arc, on_status=arc.on_status or "any") for arc in group)
        if reads_outcome and isinstance(group, _ElseGroup)
        else group
        for group in groups
    )


def _read_arc(node: Node, report: Report) -> tuple[Group, ...]:
    """Read an arc to one step, or with ``then`` to all steps of a list."""
    if isinstance(node, MappingNode) and node.get("then"):
        return _read_entry(node, report)
    arc = _read_target(node, report)
    return ((arc,),) if arc else ()


def _read_list(items: tuple[Node, ...], report: Report) -> tuple[Group, ...]:
    """Read a list of targets; consecutive entries without a condition form one group."""
    groups: list[Group] = []
    for item in items:
        for group in _read_entries((item,), report):
            if groups and not (_is_choice(item) or group[0].is_conditional or groups[-1][0].is_conditional):
                groups[-1] += group
            else:
                groups.append(group)
    return tuple(groups)


def _read_entries(items: tuple[Node, ...], report: Report) -> tuple[Group, ...]:
    return tuple(group for item in items for group in _read_entry(item, report) if group)


def _is_choice(item: Node) -> bool:
    return isinstance(item, MappingNode) and any(item.get(key) for key in ("when", "then", "else"))


def _read_entry(node: Node, report: Report) -> tuple[Group, ...]:
    """Read an entry of a list: a step, or a choice, whose ``else`` may be beside ``then`` or in an entry of its own."""
    if not isinstance(node, MappingNode) or not _is_choice(node) or node.get("step"):
        arc = _read_target(node, report)
        return ((arc,),) if arc else ()
    fields = ConstructFields(node, report, CHOICE)
    when = fields.condition("when")
    then, else_node = fields.node_of("then"), fields.node_of("else")
    shared_input = mapping_value(fields.node_of(*keys.ROUTE_INPUT), report, "args")
    fields.check_keys()
    if when is None and then is None:
        return (_ElseGroup(_read_targets(else_node, None, shared_input, fields)),)
    targets = _read_targets(then, when, shared_input, fields)
    return (targets, _ElseGroup(_read_targets(else_node, None, shared_input, fields))) if else_node else (targets,)


def _read_targets(then: Node | None, when: Template | None, shared_input: Value, fields: ConstructFields) -> Group:
    if then is None:
        fields.report_missing("then")
        return ()
    nodes = then.items if isinstance(then, SequenceNode) else (then,)
    arcs = (_read_target(node, fields.report, when) for node in nodes)
    return tuple(replace(arc, args=overlay(shared_input, arc.args)) for arc in arcs if arc is not None)


def _read_target(node: Node, report: Report, when: Template | None = None) -> Arc | None:
    """Read a step's name, or ``{step, when, set, args}``."""
    if isinstance(node, ScalarNode) and node.text:
        return Arc(Name(node.text, node.span), node.span, when)
    if not isinstance(node, MappingNode):
        report.error(Code.WRONG_TYPE, node.span, f"a route must name a step, not be {kind_of(node)}")
        return None
    fields = ConstructFields(node, report, TARGET)
    to, condition = fields.required_name("step", "next"), fields.condition("when")
    args = mapping_value(fields.node_of(*keys.ROUTE_INPUT), report, "args")
    assignments = read_assigns(fields, "ctx")
    on_status = fields.choice("on_status", ON_STATUS)
    fields.check_keys()
    return Arc(to, node.span, condition or when, assignments, args, on_status) if to else None
