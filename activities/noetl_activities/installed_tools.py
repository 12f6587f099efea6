"""Descriptions of the installed tools for the compiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from noetl_activities.tool import BUILT_IN, load_problem, loaded, owner, registrations
from noetl_compiler.language.tool_description import ToolDescription, Tools
from noetl_compiler.language.tools import KINDS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["installed_tools"]


def installed_tools() -> Tools:
    """Return the kinds of tools that NoETL knows, and those of installed packages.

    Packages are searched when a kind is looked up that NoETL does not provide, and the module of a tool is imported
    when its kind is looked up. A tool that cannot be used has a ``problem``.
    """
    return _InstalledTools()


class _InstalledTools(Mapping[str, ToolDescription]):
    def __init__(self) -> None:
        self._described: dict[str, ToolDescription] = {}

    @cached_property
    def _points(self) -> Mapping[str, Sequence[EntryPoint]]:
        return registrations()

    def __getitem__(self, kind: str) -> ToolDescription:
        if kind in BUILT_IN:
            return KINDS[kind]
        if kind not in self._points:
            return KINDS[kind]
        if kind not in self._described:
            self._described[kind] = _described(self._points[kind])
        return self._described[kind]

    def __iter__(self) -> Iterator[str]:
        yield from KINDS
        yield from (kind for kind in self._points if kind not in KINDS)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _described(points: Sequence[EntryPoint]) -> ToolDescription:
    """Return the description of a tool by its package. Errors in the package become the ``problem`` of the tool."""
    if len(points) > 1:
        return ToolDescription(problem=f"it is registered by {' and '.join(map(owner, points))}")
    [point] = points
    try:
        return loaded(point).spec.describe()
    except Exception as error:
        return ToolDescription(problem=load_problem(point, error))
