"""The self-description of a tool for the compiler, editors, ``noetl explain``, and the worker."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # processes of single calls import this module, but need neither import
    from pydantic import BaseModel

    from noetl_compiler.language.tool_description import HowOften, ToolDescription

__all__ = ["ToolSpec", "built_in"]

_KIND = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The description of a tool.

    ``summary`` is a sentence about what a call does.

    ``fields`` is a model of the fields of a call: the compiler checks and editors display their names, types, defaults
    and descriptions. With None, a call may have any fields. ``result`` is a model of the result if it is a mapping.
    ``effects`` is False if a call changes nothing outside of the worker. ``guarantee`` is how often a call takes effect
    despite crashes, and why; the default is at least once.

    ``timeout`` is the default timeout of a call with its sinks in seconds; None for no limit (semantics.md 21).
    ``max_concurrent`` is the maximum number of concurrent calls in one process; ``cores`` for one per processor, None
    for no limit. Built-in tools have a ``description``, which replaces the other fields for the compiler.

    Raises ValueError if the kind is not a lower-case word.
    """

    kind: str
    summary: str
    fields: type[BaseModel] | None = None
    result: type[BaseModel] | None = None
    effects: bool = True
    guarantee: tuple[HowOften, str] | None = None
    timeout: float | None = None
    max_concurrent: int | Literal["cores"] | None = None
    description: ToolDescription | None = None

    def __post_init__(self) -> None:
        if not _KIND.fullmatch(self.kind):
            raise ValueError(f"the kind {self.kind!r} of a tool must be a word of small letters, digits and _")

    def describe(self) -> ToolDescription:
        """Return the spec as plain data. Raises ValueError if the kind or a field has a reserved name."""
        if self.description is not None:
            return self.description
        from noetl_activities.tool_models import field_table, required_fields
        from noetl_compiler.language.tool_description import Guarantee, ToolDescription
        from noetl_compiler.language.tools import RESERVED_FIELDS, RESERVED_KINDS

        if self.kind in RESERVED_KINDS:
            raise ValueError(f"the kind {self.kind!r} is reserved: choose another")
        fields = None if self.fields is None else field_table(self.fields)
        if reserved_fields := sorted(RESERVED_FIELDS & (fields or {}).keys()):
            raise ValueError(
                f"every call may have {', '.join(reserved_fields)}: give the field of the tool another name"
            )
        return ToolDescription(
            self.summary,
            fields,
            required_fields(self.fields) if self.fields else (),
            result=field_table(self.result) if self.result else {},
            effect="code" if self.effects else "none",
            guarantee=Guarantee(*self.guarantee) if self.guarantee else None,
            timeout=self.timeout,
            has_executor=True,
        )


def built_in(kind: str, max_concurrent: int | Literal["cores"] | None = None) -> ToolSpec:
    """Return the spec of a built-in tool. Its description is part of the language, so that the compiler does not import
    the tool.
    """
    from noetl_compiler.language.tools import KINDS

    tool = KINDS[kind]
    return ToolSpec(
        kind,
        tool.summary,
        effects=tool.effect != "none",
        timeout=tool.timeout,
        max_concurrent=max_concurrent,
        description=tool,
    )
