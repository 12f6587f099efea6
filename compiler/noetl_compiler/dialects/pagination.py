"""Read ``loop: {pagination: ...}``, November and December 2025: call again after each success, until the last page.

    loop:
      pagination:
        type: response_based
        continue_while: "{{ response.data.paging.hasMore }}"
        next_page: {params: {page: "{{ response.data.paging.page + 1 }}"}}
        merge_strategy: append
        merge_path: data.items
        max_iterations: 10
        retry: {max_attempts: 3}

Later dialects have ``retry: {on_success: ...}`` instead (retry.py), with one difference: here ``response`` is the whole
response and ``response.data`` its body, later ``response`` is the body. If a pagination reads ``response.data``, it is
renamed to ``response.body``, and so is ``data`` at the start of ``merge_path``.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from noetl_compiler import graph
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.retry import RetryRules, read_retry, warn_of_unbounded_pages
from noetl_compiler.graph import Collect, Value
from noetl_compiler.language import defaults
from noetl_compiler.language.constructs.loops import PAGINATION
from noetl_compiler.language.words import STRATEGIES
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, value_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import Policy, Rule

__all__ = ["read_pagination", "read_retry_and_pagination"]

_WHOLE_RESPONSE = re.compile(r"\bresponse\.data\b")


def read_retry_and_pagination(fields: Fields, report: Report) -> RetryRules | None:
    """Read the rules that repeat the call of a step or task: its ``retry``, and the pagination of its loop."""
    retry, pagination = read_retry(fields, report), read_pagination(fields, report)
    if retry is None or pagination is None:
        return retry or pagination
    rules = (*retry.policy.rules, *pagination.policy.rules)
    return RetryRules(
        Policy(pagination.policy.span, rules, "fail", retry_clause=retry.policy.retry_clause), retry.page_sinks
    )


def read_pagination(fields: Fields, report: Report) -> RetryRules | None:
    """Read the pagination of a step's loop, None if it has none."""
    loop = fields.node.get("loop")
    node = loop.get("pagination") if isinstance(loop, MappingNode) else None
    if not isinstance(node, MappingNode):
        return None
    page_fields = ConstructFields(_rename_body(node) if _reads_whole_response(node) else node, report, PAGINATION)
    retry, page_rule = read_retry(page_fields, report), _read_page_rule(page_fields)
    return RetryRules(Policy(node.span, (*(retry.policy.rules if retry else ()), page_rule), "fail"))


def _read_page_rule(fields: ConstructFields) -> Rule:
    when = fields.condition("continue_while")
    patch = fields.mapping("next_page")
    max_pages = fields.count("max_iterations")
    if max_pages is None:
        warn_of_unbounded_pages(fields.span, "max_iterations", fields.report)
    rule = graph.Rule(
        "again",
        fields.span,
        on_status="ok",
        when=when,
        attempts=max_pages or Value(defaults.PAGES),
        patch=value_of(patch) if patch else None,
        collect=Collect(fields.choice("merge_strategy", STRATEGIES) or "append", fields.text("merge_path")),
    )
    fields.check_keys()
    return Rule(rule)


def _reads_whole_response(node: Node) -> bool:
    match node:
        case MappingNode():
            return any(_reads_whole_response(item) for _, item in node.entries)
        case SequenceNode():
            return any(_reads_whole_response(item) for item in node.items)
        case ScalarNode():
            return bool(_WHOLE_RESPONSE.search(node.text))


def _rename_body(node: MappingNode) -> MappingNode:
    entries = (
        (key, _rename_in_path(item) if key.text == "merge_path" else _rename_in_templates(item))
        for key, item in node.entries
    )
    return replace(node, entries=tuple(entries))


def _rename_in_templates(node: Node) -> Node:
    """Rename the body in a template. Both words have the same length, so offsets of errors stay correct."""
    match node:
        case MappingNode():
            return replace(node, entries=tuple((key, _rename_in_templates(item)) for key, item in node.entries))
        case SequenceNode():
            return replace(node, items=tuple(_rename_in_templates(item) for item in node.items))
        case ScalarNode():
            return _with_text(node, _WHOLE_RESPONSE.sub("response.body", node.text))


def _rename_in_path(node: Node) -> Node:
    return _with_text(node, re.sub(r"^data\b", "body", node.text)) if isinstance(node, ScalarNode) else node


def _with_text(node: ScalarNode, text: str) -> ScalarNode:
    return replace(node, text=text, value=text) if text != node.text else node
