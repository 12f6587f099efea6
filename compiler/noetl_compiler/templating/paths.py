"""Find the parts of the scope that a template reads, without running it.

``workload.api_url`` is a path; a call, a filter, or a subscript that is not a constant name ends it. Jinja's own
analysis finds the free names, so the variable of a ``{% for %}`` is not one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from jinja2 import meta, nodes
from jinja2.exceptions import UndefinedError

from noetl_compiler.graph import Json
from noetl_compiler.templating.budget import BudgetExceededError, NotDataError, RenderBudget
from noetl_compiler.templating.materialise import materialise
from noetl_compiler.templating.sandbox import ENVIRONMENT

__all__ = [
    "Application",
    "TemplatePaths",
    "collect_paths",
    "compared_paths",
    "follow_path",
    "lone_path",
    "project",
    "unguarded_paths",
]

Application: TypeAlias = nodes.Call | nodes.Filter | nodes.Test

_EXISTENCE_TESTS = frozenset({"defined", "undefined", "default", "d"})
_GLOBALS = frozenset(str(name) for name in ENVIRONMENT.globals)
_NAMES = r"[a-z_]\w*(?:\.[a-z_]\w*){0,20}"
_PATH = re.compile(rf"\{{\{{\s*({_NAMES})\s*\}}\}}", re.ASCII | re.IGNORECASE)
_LITERAL = r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,17})?|'[^'\\{}]*'|\"[^\"\\{}]*\""
_COMPARISON = re.compile(
    rf"\{{\{{\s*({_NAMES})\s*(?:[=!<>]=|[<>])\s*(?:({_NAMES})|{_LITERAL})\s*\}}\}}", re.ASCII | re.IGNORECASE
)
_RESERVED_WORDS = _GLOBALS | {"and", "else", "false", "if", "in", "is", "none", "not", "or", "true"}


class TemplatePaths(NamedTuple):
    """The sorted dotted paths that a template reads, those that it tests for existence (``a.b is defined``,
    ``a.b | default(0)``), and its calls, filters and tests.
    """

    read_paths: tuple[str, ...]
    tested_paths: tuple[str, ...]
    applications: tuple[Application, ...]


def lone_path(source: str) -> str | None:
    """Return the path that is all of a template, as in most templates; None for any other, which has to be parsed."""
    match = _PATH.fullmatch(source)
    return match[1] if match and _begins_in_scope(match[1]) else None


def compared_paths(source: str) -> tuple[str, ...] | None:
    """Return the sorted paths of a template that only compares a path with another or a literal, as most conditions do;
    None for any other, which has to be parsed.
    """
    match = _COMPARISON.fullmatch(source)
    if match is None:
        return None
    paths = {path for path in match.groups() if path is not None}
    return tuple(sorted(paths)) if all(map(_begins_in_scope, paths)) else None


def _begins_in_scope(path: str) -> bool:
    """Whether a path begins with a name of the scope, not with a word of Jinja or a function."""
    return path.partition(".")[0].lower() not in _RESERVED_WORDS


def collect_paths(tree: nodes.Template) -> TemplatePaths:
    """Collect paths, calls, filters and tests in one walk. Jinja's slow analysis is used only for statements."""
    paths: set[str] = set()
    applications: list[Application] = []
    pending: list[nodes.Node] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Application):
            applications.append(node)
        path, remaining = _path_ending_at(node)
        if path:
            paths.add(path)
        pending += remaining
    unread_names: set[str] = set(_GLOBALS)
    if not all(isinstance(node, nodes.Output) for node in tree.body):
        unread_names |= {path.partition(".")[0] for path in paths} - _undeclared_names(tree)
    read_paths = tuple(sorted(path for path in paths if path.partition(".")[0] not in unread_names))
    return TemplatePaths(read_paths, tuple(sorted(_tested_paths(applications))), tuple(applications))


def _undeclared_names(tree: nodes.Template) -> set[str]:
    """Run Jinja's analysis without its constant folding, which has no budget."""
    analysis = meta.TrackingCodeGenerator(ENVIRONMENT)
    analysis.optimizer = None
    analysis.visit(tree)
    return analysis.undeclared_identifiers


def unguarded_paths(read_paths: Iterable[str], tested_paths: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that are read without a test that they, an ancestor or a descendant exists."""
    guards = set(tested_paths)
    if not guards:
        return tuple(read_paths)
    above = {ancestor for path in guards for ancestor in _with_ancestors(path)}
    return tuple(path for path in read_paths if path not in above and guards.isdisjoint(_with_ancestors(path)))


def _tested_paths(applications: Iterable[Application]) -> set[str]:
    tests = (node for node in applications if not isinstance(node, nodes.Call) and node.name in _EXISTENCE_TESTS)
    return {path for node in tests if node.node is not None and (path := _path_ending_at(node.node)[0])}


def _with_ancestors(path: str) -> Iterator[str]:
    """Yield ``a.b.c``, ``a.b``, ``a``."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def _path_ending_at(node: nodes.Node) -> tuple[str, list[nodes.Node]]:
    """Return the path that ends in this node, and the nodes still to be visited. A method is not part of a path."""
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        return "", [node.node.node, *node.iter_child_nodes(exclude=("node",))]
    parts: list[str] = []
    remaining: list[nodes.Node] = []
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        name = _constant_name(node)
        if name is None:
            parts.clear()
            remaining.append(node.arg if isinstance(node, nodes.Getitem) else node)
        else:
            parts.append(name)
        node = node.node
    if isinstance(node, nodes.Name):
        return ".".join([node.name, *reversed(parts)]), remaining
    return "", [*remaining, *(_children(node) if not parts and not remaining else [node])]


def _children(node: nodes.Node) -> Iterator[nodes.Node]:
    """Yield the children of a node, faster than ``iter_child_nodes``."""
    for name in node.fields:
        value = getattr(node, name)
        if isinstance(value, nodes.Node):
            yield value
        elif isinstance(value, list):
            yield from (item for item in cast("list[object]", value) if isinstance(item, nodes.Node))


def _constant_name(node: nodes.Getattr | nodes.Getitem) -> str | None:
    if isinstance(node, nodes.Getattr):
        return node.attr
    name = node.arg.value if isinstance(node.arg, nodes.Const) else None
    return name if isinstance(name, str) and "." not in name else None


def project(scope: Mapping[str, Any], paths: Sequence[str], budget: RenderBudget) -> dict[str, Json]:
    """Return the smallest nested dict with the values at these paths; undefined paths are left out.

    Raises NotDataError for a value that is not data.
    """
    budget.is_passing_on = True
    result: dict[str, Json] = {}
    covered_paths: set[str] = set()
    for path in sorted(set(paths)):
        parts = path.split(".")
        if any(".".join(parts[:count]) in covered_paths for count in range(1, len(parts))):
            continue
        depth, value = follow_path(scope, parts)
        if depth == len(parts):
            covered_paths.add(path)
            _set_at(result, parts, _materialise_part(path, value, budget))
    return result


def _materialise_part(path: str, value: Any, budget: RenderBudget) -> Json:
    try:
        return materialise(value, budget)
    except (BudgetExceededError, NotDataError, RecursionError, UnicodeEncodeError, UndefinedError) as error:
        raise NotDataError(f'"{path}" cannot be passed on: {error}') from error


def follow_path(scope: Mapping[str, Any], parts: Sequence[str]) -> tuple[int, Any]:
    """Follow a path as far as it is defined; return the number of parts followed and the value reached."""
    value: Any = scope
    for index, part in enumerate(parts):
        try:
            value = value[part]
        except (LookupError, TypeError):
            return index, value
    return len(parts), value


def _set_at(target: dict[str, Json], parts: Sequence[str], value: Json) -> None:
    for part in parts[:-1]:
        target = target.setdefault(part, {})
    target[parts[-1]] = value
