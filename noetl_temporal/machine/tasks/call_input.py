"""The input of the call of a playbook, in which stored lists are references.

The machine of the called playbook loads such a list where a template reads it, like a list of a request, and its loops
take their items from the parts. So the caller does not load what it only passes on (dev/decisions/0098).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from noetl_compiler import templates
from noetl_compiler.graph import Json, Value
from noetl_compiler.graph.contents import tokens_of, value_at, with_values_at
from noetl_compiler.templating.paths import lone_path
from noetl_temporal.machine.call import StoredRef
from noetl_temporal.machine.deferred import DeferredNames
from noetl_temporal.machine.stored import stored_list, with_deferred

__all__ = ["CallInput", "render_input"]


class CallInput(NamedTuple):
    """The ``values`` of an input by name. Stored ones are null in it; ``references`` has the references to them by JSON
    pointer.
    """

    values: dict[str, Json]
    references: dict[str, StoredRef]

    @property
    def names(self) -> DeferredNames:
        """The values for templates, in which those that are stored are deferred."""
        return with_deferred(self.values, self.references)

    def overridden_by(self, other: CallInput) -> CallInput:
        """Return this input, in which the names of ``other`` replace equal ones."""
        references = {
            path: reference for path, reference in self.references.items() if tokens_of(path)[0] not in other.values
        }
        return CallInput({**self.values, **other.values}, {**references, **other.references})

    def without_nulls(self) -> CallInput:
        """Return the names that have a value."""
        stored_names = {tokens_of(pointer)[0] for pointer in self.references}
        values = {name: value for name, value in self.values.items() if value is not None or name in stored_names}
        return CallInput(values, self.references)


def render_input(value: Value, scope: Mapping[str, Any]) -> tuple[Json, dict[str, StoredRef]]:
    """Return the rendered value, in which stored lists are null, and the references to these lists by JSON pointer.

    A stored list is kept as a reference if a template consists of its path only. Raises NotLoaded, TemplateFailure.
    """
    references: dict[str, StoredRef] = {}
    for pointer, span in value.templates.items():
        source = value_at(value.data, pointer)
        if _is_within_mappings(value.data, pointer) and lone_path(str(source)) is not None:
            template = Value(source, {"": span})
            reference = stored_list(partial(templates.render, template, scope))
            if reference is not None:
                references[pointer] = replace(reference, pointer="", container={})
    if not references:
        return templates.render(value, scope), {}
    others = {pointer: span for pointer, span in value.templates.items() if pointer not in references}
    return templates.render(Value(with_values_at(value.data, dict.fromkeys(references)), others), scope), references


def _is_within_mappings(data: Json, pointer: str) -> bool:
    """Whether the value at a JSON pointer is inside mappings only, at least one."""
    for token in tokens_of(pointer):
        if not isinstance(data, dict):
            return False
        data = cast("dict[str, Json]", data)[token]
    return bool(pointer)
