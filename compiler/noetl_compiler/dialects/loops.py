"""Read ``loop`` in the legacy and the v10 form. Either dialect may use both, as they mean the same."""

from __future__ import annotations

import re

from noetl_compiler import graph
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.cursors import read_cursor
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.frames import read_frame
from noetl_compiler.dialects.reducers import read_reducers
from noetl_compiler.dialects.routes import read_next
from noetl_compiler.dialects.spec_defaults import only_total, read_call_defaults
from noetl_compiler.dialects.values import expression
from noetl_compiler.graph import Cursor, Template
from noetl_compiler.language.constructs.loops import LOOP_FAILURE, LOOP_POLICY, LOOP_SPEC
from noetl_compiler.language.defaults import ITERATOR
from noetl_compiler.language.words import ITEM_ERRORS, LOOP_FAILURES, LOOP_MODES, LoopFailure, LoopMode
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, value_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import Loop, Name

__all__ = ["read_loop"]

_LIST_KEYS = ("where", "order_by", "chunk_size")
"""Keys that select and order the items of a list."""

_EMPTY_EXPRESSION = re.compile(r"\s*(?:\{\{\s*\}\})?\s*")


def read_loop(node: Node | None, report: Report) -> Loop | None:
    """Read the loop of a step."""
    if node is None:
        return None
    if not isinstance(node, MappingNode):
        report.error(Code.WRONG_TYPE, node.span, '"loop" must be a mapping', "write {in: ..., iterator: item}")
        return None
    fields = ConstructFields(_with_spec(node), report, LOOP_SPEC)
    if fields.node_of("pagination") is not None and len(node.entries) == 1:
        return None  # one call and its pages, so no loop (pagination.py)
    element = _read_iterator(fields) or Name(ITERATOR, node.span)
    collection, cursor = fields.node_of("in"), read_cursor(fields)
    _check_source(fields, collection, cursor)
    if cursor is not None:
        fields.ignore(*_LIST_KEYS, reason="the claim of the cursor selects and orders the rows")
    policy = ConstructFields.nested(fields, "policy", LOOP_POLICY)
    policy = policy or ConstructFields.empty(node.span, report, LOOP_POLICY)
    failure = _read_failure(policy)
    body = graph.Loop(
        element.text,
        node.span,
        collection=value_of(collection) if collection else None,
        cursor=cursor,
        mode=_read_mode(fields, policy),
        max_in_flight=fields.count("max_in_flight") or policy.count("max_in_flight"),
        chunk_size=fields.count("chunk_size") if cursor is None else None,
        limit=fields.amount("limit"),
        where=_read_filter(fields) if cursor is None else None,
        order_by=expression(fields.node_of("order_by"), report) if cursor is None else None,
        on_error=fields.choice("on_error", ITEM_ERRORS) or ("fail_fast" if failure == "fail_fast" else "continue"),
        failure="best_effort" if failure == "best_effort" else "fail",
        frame=None if cursor is not None else read_frame(fields),
    )
    timeout = fields.timeout()
    defaults = read_call_defaults(fields, policy, timeout, "iter")
    span = collection.span if collection is not None else node.span
    reducers = read_reducers(fields) or read_reducers(policy)
    routes = read_next(fields.node_of("next"), report)
    loop = Loop(body, element, span, only_total(timeout), defaults, reducers, routes)
    fields.check_keys()
    policy.check_keys()
    return loop


def _read_iterator(fields: ConstructFields) -> Name | None:
    name = fields.name("iterator")
    if name is not None and not name.text.isidentifier():
        message = f'a template cannot read an item named "{name.text}"'
        fields.report.error(Code.WRONG_VALUE, name.span, message, "name it with letters, digits and _")
    return name


def _read_filter(fields: Fields) -> Template | None:
    """Read the filter. ``filter: "{{}}"``, found in old files, keeps every item."""
    node = fields.node_of("where")
    if isinstance(node, ScalarNode) and _EMPTY_EXPRESSION.fullmatch(node.text):
        fields.ignore("where", "filter", reason="an empty filter keeps every item")
        return None
    return expression(node, fields.report)


def _with_spec(node: MappingNode) -> MappingNode:
    """Merge the ``spec`` of a loop into the loop itself."""
    spec = node.get("spec")
    if spec is None or isinstance(spec, SequenceNode) or (isinstance(spec, ScalarNode) and spec.value is not None):
        return node
    spec_entries = spec.entries if isinstance(spec, MappingNode) else ()
    return MappingNode((*spec_entries, *node.without("spec").entries), node.span)


def _read_mode(fields: ConstructFields, policy: ConstructFields) -> LoopMode:
    mode = fields.choice("mode", LOOP_MODES) or policy.choice("mode", LOOP_MODES)
    if mode is None and "cursor" in fields:
        return "parallel"
    return mode or ("chunked" if "chunk_size" in fields or "chunk" in fields else "sequential")


def _check_source(fields: Fields, collection: Node | None, cursor: Cursor | None) -> None:
    if collection is None and cursor is None and "cursor" not in fields:
        fields.report_missing("in", hint='write a list, or a template of one: in: "{{ workload.items }}"')
    if collection is not None and cursor is not None:
        related = (Related(collection.span, "the collection is here"),)
        message = "a loop iterates over a collection or a cursor, not both"
        fields.report.error(Code.CONFLICTING_FIELDS, cursor.span, message, "remove one of them", related)


def _read_failure(policy: Fields) -> LoopFailure:
    failure = ConstructFields.nested(policy, "failure", LOOP_FAILURE)
    mode = failure.choice("mode", LOOP_FAILURES) if failure else None
    if failure:
        failure.check_keys()
    return mode or "fail"
