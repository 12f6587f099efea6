"""Read how a result is stored, and which of its parts are named.

output: {store: {kind: kv, scope: execution}, inline_max_bytes: 0, select: [{path: "$.meta.count", as: count}]}
spec: {result: {...}}                                 the same in v10's first spelling
output: {output_select: [status, count]}              parts under their own names
output_select: [status, count]                        the same beside the tool
"""

from __future__ import annotations

import re

from noetl_compiler.codes import Code
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.values import amount
from noetl_compiler.graph import Output, Select, Value
from noetl_compiler.language.constructs.results import OUTPUT_CONSTRUCT, PART, STORED_BY_SIZE
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, string_node, value_of
from noetl_compiler.report import Report

__all__ = ["read_output"]

_NAME = r"[A-Za-z_][\w-]*"
_PATH = re.compile(rf"(?:\$\.?)?((?:{_NAME}|\d+|\[\d+\]|\['[^']+'\])(?:\.{_NAME}|\.\d+|\[\d+\]|\['[^']+'\])*)")
_PATH_PART = re.compile(r"\['([^']+)'\]|\[(\d+)\]|([^.\[\]]+)")


def read_output(fields: Fields, *keys: str) -> Output | None:
    """Read the settings of a result from one of these fields; any other value there has no effect."""
    node = fields.node_of(*keys)
    selection = fields.node.get("output_select") if "output" in keys else None
    if not _is_about_result(node):
        fields.ignore(*keys, reason=STORED_BY_SIZE)
        node = None
    select = _read_select(fields, "output_select") if selection is not None else ()
    if not isinstance(node, MappingNode):
        return Output(fields.span, select) if select else None
    output_fields = ConstructFields(node, fields.report, OUTPUT_CONSTRUCT)
    output = Output(
        node.span,
        select=select or _read_select(output_fields, "select"),
        store=_read_store(output_fields),
        inline_max_bytes=amount(node.get("inline_max_bytes"), fields.report),
        preview_max_bytes=amount(node.get("preview_max_bytes"), fields.report),
    )
    output_fields.check_keys()
    return output


def _is_about_result(node: Node | None) -> bool:
    return isinstance(node, MappingNode) and any(key.text in OUTPUT_CONSTRUCT.by_name for key, _ in node.entries)


def _read_store(fields: Fields) -> Value:
    """Read the store: a mapping that includes ``scope``, or a word, its kind."""
    store, entries = fields.node.get("store"), list[tuple[ScalarNode, Node]]()
    if isinstance(store, MappingNode):
        entries += store.entries
    elif isinstance(store, ScalarNode):
        entries.append((string_node("kind", store.span), store))
    if (scope := fields.node.get("scope")) is not None:
        entries.append((string_node("scope", scope.span), scope))
    return value_of(MappingNode(tuple(entries), fields.span))


def _read_select(fields: Fields, *keys: str) -> tuple[Select, ...]:
    node = fields.node_of(*keys)
    if isinstance(node, MappingNode):
        fields.ignore(*keys, reason=STORED_BY_SIZE)  # {strategy, threshold_kb}: the engine would choose the parts
        return ()
    nodes = node.items if isinstance(node, SequenceNode) else fields.items(*keys)
    return tuple(part for item in nodes if (part := _read_part(item, fields.report)) is not None)


def _read_part(node: Node, report: Report) -> Select | None:
    """Read ``{path, as}``, or the name of a part, which then keeps its name."""
    if isinstance(node, ScalarNode):
        path = _dotted_path(node, report)
        return Select(path.rpartition(".")[2], path) if path else None
    if not isinstance(node, MappingNode):
        report.error(Code.WRONG_TYPE, node.span, "a part of a result must be a name, or a mapping with path and as")
        return None
    fields = ConstructFields(node, report, PART)
    path_node, name = fields.scalar("path"), fields.name("as")
    fields.check_keys()
    path = _dotted_path(path_node, report) if path_node else None
    return Select(name.text if name else path.rpartition(".")[2], path) if path else None


def _dotted_path(node: ScalarNode, report: Report) -> str | None:
    """Convert ``$.choices[0].text`` to ``choices.0.text``."""
    match = _PATH.fullmatch(node.text.strip())
    if match is None:
        hint = "write the path to one part, such as $.data.items[0]"
        report.error(Code.WRONG_VALUE, node.span, f'"{node.text}" is not a path into a result', hint)
        return None
    return ".".join(next(filter(None, parts)) for parts in _PATH_PART.findall(match[1]))
