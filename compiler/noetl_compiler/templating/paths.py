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
    "Applied",
    "TemplatePaths",
    "compared_paths",
    "follow",
    "lone_path",
    "project",
    "survey",
    "unguarded",
]

Applied: TypeAlias = nodes.Call | nodes.Filter | nodes.Test

_ASKING = frozenset({"defined", "undefined", "default", "d"})
_GLOBALS = frozenset(str(name) for name in ENVIRONMENT.globals)
_NAMES = r"[a-z_]\w*(?:\.[a-z_]\w*){0,20}"
_PATH = re.compile(rf"\{{\{{\s*({_NAMES})\s*\}}\}}", re.ASCII | re.IGNORECASE)
_LITERAL = r"-?(?:0|[1-9]\d{0,17})(?:\.\d{1,17})?|'[^'\\{}]*'|\"[^\"\\{}]*\""
_COMPARISON = re.compile(
    rf"\{{\{{\s*({_NAMES})\s*(?:[=!<>]=|[<>])\s*(?:({_NAMES})|{_LITERAL})\s*\}}\}}", re.ASCII | re.IGNORECASE
)
_NO_NAMES = _GLOBALS | {"and", "else", "false", "if", "in", "is", "none", "not", "or", "true"}


class TemplatePaths(NamedTuple):
    """The sorted dotted paths that a template reads, those that it tests for existence (``a.b is defined``,
    ``a.b | default(0)``), and everything that it calls or applies.
    """

    reads: tuple[str, ...]
    asked: tuple[str, ...]
    applied: tuple[Applied, ...]


def lone_path(source: str) -> str | None:
    """Return the path if a template is nothing else, as most are; None if it takes a parser to find out."""
    found = _PATH.fullmatch(source)
    return found[1] if found and _is_of_scope(found[1]) else None


def compared_paths(source: str) -> tuple[str, ...] | None:
    """Return the sorted paths if a template only compares a path with another or a literal, as most conditions do; None
    if it takes a parser to find out.
    """
    found = _COMPARISON.fullmatch(source)
    if found is None:
        return None
    paths = {path for path in found.groups() if path is not None}
    return tuple(sorted(paths)) if all(map(_is_of_scope, paths)) else None


def _is_of_scope(path: str) -> bool:
    """Whether a path begins with a name of the scope, not with a word of Jinja or a function."""
    return path.partition(".")[0].lower() not in _NO_NAMES


def survey(tree: nodes.Template) -> TemplatePaths:
    """Collect paths and applications in one walk. Jinja's slow analysis is only used if statements bind names."""
    found: set[str] = set()
    applied: list[Applied] = []
    waiting: list[nodes.Node] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Applied):
            applied.append(node)
        path, rest = _path(node)
        if path:
            found.add(path)
        waiting += rest
    hidden: set[str] = set(_GLOBALS)
    if not all(isinstance(node, nodes.Output) for node in tree.body):
        hidden |= {path.partition(".")[0] for path in found} - _undeclared(tree)
    reads = tuple(sorted(path for path in found if path.partition(".")[0] not in hidden))
    return TemplatePaths(reads, tuple(sorted(_asked(applied))), tuple(applied))


def _undeclared(tree: nodes.Template) -> set[str]:
    """Run Jinja's analysis without its constant folding, which has no budget."""
    analysis = meta.TrackingCodeGenerator(ENVIRONMENT)
    analysis.optimizer = None
    analysis.visit(tree)
    return analysis.undeclared_identifiers


def unguarded(reads: Iterable[str], asked: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that are read without a test that they, an ancestor or a descendant exists."""
    guards = set(asked)
    if not guards:
        return tuple(reads)
    above = {one for path in guards for one in _upwards(path)}
    return tuple(path for path in reads if path not in above and guards.isdisjoint(_upwards(path)))


def _asked(applied: Iterable[Applied]) -> set[str]:
    asking = (node for node in applied if not isinstance(node, nodes.Call) and node.name in _ASKING)
    return {path for node in asking if node.node is not None and (path := _path(node.node)[0])}


def _upwards(path: str) -> Iterator[str]:
    """``a.b.c``, ``a.b``, ``a``."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def _path(node: nodes.Node) -> tuple[str, list[nodes.Node]]:
    """Return the path that ends in this node, and the nodes still to be visited. A method is not part of a path."""
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        return "", [node.node.node, *node.iter_child_nodes(exclude=("node",))]
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
        return ".".join([node.name, *reversed(steps)]), rest
    return "", [*rest, *(_children(node) if not steps and not rest else [node])]


def _children(node: nodes.Node) -> Iterator[nodes.Node]:
    """Yield a faster ``iter_child_nodes``."""
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


def project(scope: Mapping[str, Any], paths: Sequence[str], meter: RenderBudget) -> dict[str, Json]:
    """Return the smallest nested dict with the values at these paths; undefined paths are left out.

    Raises NotDataError for a value that is not data.
    """
    meter.is_passing_on = True
    result: dict[str, Json] = {}
    covered: set[str] = set()
    for path in sorted(set(paths)):
        parts = path.split(".")
        if any(".".join(parts[:end]) in covered for end in range(1, len(parts))):
            continue
        known, value = follow(scope, parts)
        if known == len(parts):
            covered.add(path)
            _put(result, parts, _passed_on(path, value, meter))
    return result


def _passed_on(path: str, value: Any, meter: RenderBudget) -> Json:
    try:
        return materialise(value, meter)
    except (BudgetExceededError, NotDataError, RecursionError, UnicodeEncodeError, UndefinedError) as error:
        raise NotDataError(f'"{path}" cannot be passed on: {error}') from error


def follow(scope: Mapping[str, Any], parts: Sequence[str]) -> tuple[int, Any]:
    """Follow a path as far as it is defined; return the number of parts followed and the value reached."""
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
