"""Check how a template uses secrets: it may pass them on, alone or inside text, but neither change nor test them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError

from noetl_compiler.templating.program import parse_template

__all__ = ["misused_secret", "reads_secret"]

_PASSING_FILTERS = frozenset({"d", "default", "string", "to_json", "tojson"})
"""Filters that return their input, or its JSON."""

_EXISTENCE_TESTS = frozenset({"defined", "undefined"})


def reads_secret(source: str, heads: frozenset[str]) -> bool:
    """Whether the template reads a secret; ``heads`` are the first names of paths to secrets."""
    try:
        return _first_read(parse_template(source), heads) is not None
    except (TemplateSyntaxError, RecursionError):
        return False


def misused_secret(source: str, heads: frozenset[str]) -> str | None:
    """Return the first name of a secret that the template changes or tests; None if it only passes secrets on."""
    try:
        return _first_misused_of([parse_template(source)], heads)
    except (TemplateSyntaxError, RecursionError):
        return None


def _first_misused_of(candidates: Iterable[nodes.Node | None], heads: frozenset[str]) -> str | None:
    return next((name for node in candidates if node is not None and (name := _first_misused(node, heads))), None)


def _first_misused(node: nodes.Node, heads: frozenset[str]) -> str | None:
    """Return the first name of a secret that the node or one below it tests or changes."""
    parts = _split_node(node)
    if parts is None:
        return _first_read(node, heads)
    conditions, passed_on = parts
    return next(
        (name for condition in conditions if (name := _first_read(condition, heads))), None
    ) or _first_misused_of(passed_on, heads)


def _split_node(node: nodes.Node) -> tuple[Sequence[nodes.Node], Sequence[nodes.Node | None]] | None:
    """Return the conditions of a node and the nodes that it passes on; None for a node that changes its operands."""
    if isinstance(node, nodes.Filter) and node.name in _PASSING_FILTERS:
        return (), (node.node, *node.args)
    if isinstance(node, nodes.Test) and node.name in _EXISTENCE_TESTS:
        return (), ()
    return next((split(node) for kind, split in _SPLITTERS.items() if isinstance(node, kind)), None)


_SPLITTERS: Mapping[type[nodes.Node], Callable[[Any], tuple[Sequence[nodes.Node], Sequence[nodes.Node]]]] = {
    nodes.Template: lambda node: ((), node.body),
    nodes.Output: lambda node: ((), node.nodes),
    nodes.Concat: lambda node: ((), node.nodes),
    nodes.If: lambda node: ((node.test,), (*node.body, *node.elif_, *node.else_)),
    nodes.For: lambda node: ((node.iter,), (*node.body, *node.else_)),
    nodes.CondExpr: lambda node: ((node.test,), (node.expr1, node.expr2)),
    nodes.Add: lambda node: ((), (node.left, node.right)),
    nodes.List: lambda node: ((), node.items),
    nodes.Dict: lambda node: ((), node.items),
    nodes.Pair: lambda node: ((node.key,), (node.value,)),
    nodes.Getattr: lambda node: ((), (node.node,)),
    nodes.Getitem: lambda node: ((node.arg,), (node.node,)),
    nodes.Name: lambda _node: ((), ()),
}


def _first_read(node: nodes.Node, heads: frozenset[str]) -> str | None:
    """Return the first name of a secret that is read below a node."""
    return next((name for name in _names_read(node) if name in heads), None)


def _names_read(node: nodes.Node) -> Iterator[str]:
    if isinstance(node, nodes.Test) and node.name in _EXISTENCE_TESTS:
        return
    if isinstance(node, nodes.Name):
        yield node.name
    for inner in node.iter_child_nodes():
        yield from _names_read(inner)
