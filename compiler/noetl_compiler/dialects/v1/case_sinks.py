"""Rewrite rules of a v1 ``case`` that have a sink.

case:
  - when: "{{ start.n > 5 }}"
    then: [{step: report}]
    sink: {tool: postgres, table: large_ones}

For each such rule a step is added, to which the rule leads. The added step has the result of the step with the rule,
stores it, and leads to the targets of the rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from noetl_compiler.graph import Span
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, string_node

__all__ = ["with_case_sinks"]

Entry = tuple[ScalarNode, Node]

_SINK, _TARGETS = "sink", ("then", "else")


def with_case_sinks(root: MappingNode) -> MappingNode:
    """Return the document with a step for each sink of a rule."""
    workflow = root.get("workflow")
    if not isinstance(workflow, SequenceNode):
        return root
    steps = tuple(expanded_step for step in workflow.items for expanded_step in _expand_step(step))
    return _with_value(root, "workflow", replace(workflow, items=steps)) if len(steps) > len(workflow.items) else root


def _expand_step(step: Node) -> Iterator[Node]:
    name = step.get("step") or step.get("name") if isinstance(step, MappingNode) else None
    case = step.get("case") if isinstance(step, MappingNode) else None
    if not isinstance(step, MappingNode) or not isinstance(name, ScalarNode) or not isinstance(case, SequenceNode):
        yield step
        return
    rules: list[Node] = []
    stores: list[Node] = []
    for number, rule in enumerate(case.items, 1):
        sink = rule.get(_SINK) if isinstance(rule, MappingNode) and not rule.get("step") else None
        if isinstance(rule, MappingNode) and sink is not None:
            key = next((key for key in _TARGETS if rule.get(key) is not None), "then")
            store = f"{name.text}/sink_{number}"
            stores.append(_store_step(store, name.text, sink, rule.get(key)))
            rule_without_sink = rule.without(_SINK)
            rule = _with_value(rule_without_sink, key, string_node(store, sink.span))
        rules.append(rule)
    yield _with_value(step, "case", replace(case, items=tuple(rules))) if stores else step
    yield from stores


def _store_step(name: str, step: str, sink: Node, targets: Node | None) -> MappingNode:
    result = replace(string_node(f"{{{{ results[{step!r}] }}}}", sink.span), expressions=(sink.span,))
    tool = _mapping({"kind": string_node("noop", sink.span), "result": result, _SINK: sink}, sink.span)
    routes = {} if targets is None else {"next": targets}
    return _mapping({"step": string_node(name, sink.span), "tool": tool, **routes}, sink.span)


def _with_value(node: MappingNode, key: str, value: Node) -> MappingNode:
    """Return the mapping with a value replaced, or appended if the key is new."""
    if node.get(key) is None:
        return replace(node, entries=(*node.entries, (string_node(key, value.span), value)))
    return replace(
        node,
        entries=tuple(
            (entry_key, value if entry_key.text == key else old_value) for entry_key, old_value in node.entries
        ),
    )


def _mapping(fields: Mapping[str, Node], span: Span) -> MappingNode:
    return MappingNode(tuple((string_node(key, node.span), node) for key, node in fields.items()), span)
