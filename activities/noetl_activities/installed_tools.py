"""Descriptions of the installed tools for the compiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from noetl_activities.tool import BUILT_IN, describe_load_error, load_tool, package_name, tool_entry_points
from noetl_compiler.language.tool_description import ToolDescription, Tools
from noetl_compiler.language.tools import KINDS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["installed_tools"]


def installed_tools() -> Tools:
    """Return the kinds of tools that NoETL knows, and those of installed packages.

    Packages are searched only when a kind that NoETL does not provide is looked up, which also imports the module of
    its tool. The description of a tool that cannot be used has a ``problem``.
    """
    return _InstalledTools()


class _InstalledTools(Mapping[str, ToolDescription]):
    def __init__(self) -> None:
        self._descriptions: dict[str, ToolDescription] = {}

    @cached_property
    def _entry_points(self) -> Mapping[str, Sequence[EntryPoint]]:
        return tool_entry_points()

    def __getitem__(self, kind: str) -> ToolDescription:
        if kind in BUILT_IN:
            return KINDS[kind]
        if kind not in self._entry_points:
            return KINDS[kind]
        if kind not in self._descriptions:
            self._descriptions[kind] = _describe(self._entry_points[kind])
        return self._descriptions[kind]

    def __iter__(self) -> Iterator[str]:
        yield from KINDS
        yield from (kind for kind in self._entry_points if kind not in KINDS)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _describe(entry_points: Sequence[EntryPoint]) -> ToolDescription:
    """Return the description of a tool from its package. An error in the package becomes its ``problem``."""
    if len(entry_points) > 1:
        return ToolDescription(problem=f"it is registered by {' and '.join(map(package_name, entry_points))}")
    [entry_point] = entry_points
    try:
        return load_tool(entry_point).spec.describe()
    except Exception as error:
        return ToolDescription(problem=describe_load_error(entry_point, error))
