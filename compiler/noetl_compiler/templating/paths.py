"""Which parts of the scope a template reads, found without running it.

``workload.api_url`` is a path; a subscript that is no constant name, a call or a filter ends it. Jinja's own
analysis tells which names are free, so the variable of a ``{% for %}`` is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from jinja2 import meta, nodes
from jinja2.exceptions import TemplateSyntaxError

from noetl_compiler.graph import Json
from noetl_compiler.templating.materialise import materialise
from noetl_compiler.templating.meter import Meter
from noetl_compiler.templating.program import parsed
from noetl_compiler.templating.sandbox import ENVIRONMENT

__all__ = ["follow", "free_paths", "paths_in", "paths_read", "project", "unguarded"]

_ASKING = frozenset({"defined", "undefined", "default", "d"})


@lru_cache(maxsize=1024)
def free_paths(source: str) -> tuple[str, ...]:
    """Sorted dotted paths; raises TemplateSyntaxError."""
    tree = parsed(source)
    try:
        return paths_in(tree)
    except RecursionError as error:
        raise TemplateSyntaxError("the template is nested too deeply", 1) from error


def paths_read(source: str) -> tuple[str, ...]:
    """The same, but none when the source is no template: NT301 tells that at its place."""
    try:
        return free_paths(source)
    except TemplateSyntaxError:
        return ()


def paths_in(tree: nodes.Template) -> tuple[str, ...]:
    """Sorted dotted paths. Only statements bind names, so Jinja's analysis, which is slow, is asked only for them."""
    found: set[str] = set()
    _collect(tree, found)
    hidden: set[str] = {str(name) for name in ENVIRONMENT.globals}
    if not all(isinstance(node, nodes.Output) for node in tree.body):
        hidden |= {path.partition(".")[0] for path in found} - meta.find_undeclared_variables(tree)
    return tuple(sorted(path for path in found if path.partition(".")[0] not in hidden))


def unguarded(paths: Sequence[str], tree: nodes.Template) -> tuple[str, ...]:
    """Those of the tree's paths which it reads without asking whether they are there: ``a.b is defined``, ``a.b |
    default(0)``.
    """
    asking = [node for node in tree.find_all((nodes.Test, nodes.Filter)) if node.name in _ASKING]
    guarded = [".".join(_path(node.node)[0]) for node in asking if node.node is not None]
    return tuple(path for path in paths if not any(_related(path, other) for other in guarded if other))


def _collect(node: nodes.Node, found: set[str]) -> None:
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        _collect(node.node.node, found)
        for child in node.iter_child_nodes(exclude=("node",)):
            _collect(child, found)
        return
    parts, rest = _path(node)
    if parts:
        found.add(".".join(parts))
    for child in rest:
        _collect(child, found)


def _path(node: nodes.Node) -> tuple[list[str], list[nodes.Node]]:
    """The path that ends in this node, and the nodes that are left to be looked at."""
    steps: list[str] = []
    rest: list[nodes.Node] = []
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        name = _constant_name(node)
        if name is None:
            steps.clear()
            rest.append(node.arg if isinstance(node, nodes.Getitem) else node)
        else:
            steps.append(name)
        node = node.node
    if isinstance(node, nodes.Name):
        return [node.name, *reversed(steps)], rest
    return [], [*rest, *(node.iter_child_nodes() if not steps and not rest else [node])]


def _constant_name(node: nodes.Getattr | nodes.Getitem) -> str | None:
    if isinstance(node, nodes.Getattr):
        return node.attr
    name = node.arg.value if isinstance(node.arg, nodes.Const) else None
    return name if isinstance(name, str) and "." not in name else None


def _related(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}.") or other.startswith(f"{path}.")


def project(scope: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Json]:
    """The smallest nested dict that has the values at these paths; a path that leads nowhere is left out."""
    meter = Meter()
    result: dict[str, Json] = {}
    covered: set[str] = set()
    for path in sorted(set(paths)):
        parts = path.split(".")
        if any(".".join(parts[:end]) in covered for end in range(1, len(parts))):
            continue
        known, value = follow(scope, parts)
        if known == len(parts):
            covered.add(path)
            _put(result, parts, materialise(value, meter))
    return result


def follow(scope: Mapping[str, Any], parts: Sequence[str]) -> tuple[int, Any]:
    """How many parts of a path lead somewhere, and the value where they end."""
    value: Any = scope
    for index, part in enumerate(parts):
        try:
            value = value[part]
        except (LookupError, TypeError):
            return index, value
    return len(parts), value


def _put(target: dict[str, Json], parts: Sequence[str], value: Json) -> None:
    for part in parts[:-1]:
        target = target.setdefault(part, {})
    target[parts[-1]] = value
