"""The kinds of tools in a schema: those of ``language/tools.py``, or the installed ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from noetl_compiler.language.tool_description import ToolDescription, Tools
from noetl_compiler.language.tools import KINDS, PSEUDO_KINDS, WORKBOOK_CALL
from noetl_compiler.schema.field_types import field_value
from noetl_compiler.schema.model import Property, Schema, without_effect
from noetl_compiler.schema.values import described_words

__all__ = ["KNOWN_KINDS", "ToolKinds"]

_MARKER = ToolDescription("Marks a step; calls nothing.", {})


class ToolKinds:
    """All values of ``kind`` with the descriptions of their tools, including those that only mark a step or call the
    workbook.
    """

    def __init__(self, tools: Tools) -> None:
        marks = dict.fromkeys(sorted(PSEUDO_KINDS), _MARKER)
        self._by_name: Tools = MappingProxyType({**tools, "workbook": WORKBOOK_CALL, **marks})
        self.names = tuple(self._by_name)
        self.tools = tools

    @property
    def meanings(self) -> Mapping[str, str]:
        """Each kind with a sentence about it."""
        return {name: tool.summary for name, tool in self._by_name.items()}

    @property
    def words(self) -> Schema:
        """The schema of a tool kind, with descriptions."""
        return described_words(self.meanings)

    def tool(self, kind: str) -> ToolDescription:
        """Return the description of a tool of this kind."""
        return self._by_name[kind]

    def fields(self, kind: str) -> tuple[Property, ...]:
        """Return the fields of a kind with their older names; a kind that accepts any field has none."""
        tool = self._by_name[kind]
        older = {
            new: tuple(old for old, name in tool.renamed_fields.items() if name == new)
            for new in tool.renamed_fields.values()
        }
        kind_properties = (
            Property(name, field.about, field_value(field), older.get(name, ()), deprecated=field.is_rare)
            for name, field in (tool.fields or {}).items()
        )
        return (
            *kind_properties,
            *(without_effect(name, "the tool does not know it") for name in sorted(tool.ignored_fields)),
        )

    def is_supported(self, kind: str) -> bool:
        """Whether a run can call tools of this kind. A task of the workbook becomes part of the step that calls it."""
        return kind == "workbook" or self._by_name[kind].has_executor


KNOWN_KINDS = ToolKinds(KINDS)
"""The kinds of NoETL itself."""
