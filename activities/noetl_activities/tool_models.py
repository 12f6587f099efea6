"""Converts the pydantic models of a tool's fields and result to tables for the compiler, and validates calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from noetl_activities.errors import ConfigError
from noetl_activities.tool import Request
from noetl_compiler.language.tool_description import FieldType, ToolField

__all__ = ["field_table", "read_fields", "required_fields"]

Model = TypeVar("Model", bound=BaseModel)
_Schema = Mapping[str, Any]

_TYPES: Mapping[str, FieldType] = MappingProxyType(
    {
        "string": "text",
        "integer": "number",
        "number": "number",
        "boolean": "flag",
        "object": "mapping",
        "array": "list",
    }
)


def read_fields(model: type[Model], request: Request) -> Model:
    """Return the validated fields of a call. Null counts as absent.

    Raises ConfigError, which names the fields and what is expected, but no value: it may be a secret.
    """
    try:
        return model.model_validate({name: value for name, value in request.config.items() if value is not None})
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        messages = (
            f'"{".".join(map(str, validation_error["loc"]))}": {validation_error["msg"]}' for validation_error in errors
        )
        raise ConfigError("; ".join(messages)) from None


def field_table(model: type[BaseModel]) -> Mapping[str, ToolField]:
    """Return the fields by name, without details that the compiler does not check, such as the keys of a mapping."""
    schema = model.model_json_schema()
    return MappingProxyType(
        {
            name: _field(name, property_, schema.get("$defs", {}))
            for name, property_ in schema.get("properties", {}).items()
        }
    )


def required_fields(model: type[BaseModel]) -> tuple[tuple[str, ...], ...]:
    """Return the required fields, each as a group of one: a call must have one field of each group."""
    return tuple((name,) for name in model.model_json_schema().get("required", ()))


def _field(name: str, schema: _Schema, definitions: Mapping[str, _Schema]) -> ToolField:
    shapes = [shape for shape in _shapes(schema, definitions) if shape.get("type") != "null"]
    choices_by_shape = [_choices(shape) for shape in shapes]
    return ToolField(
        str(schema.get("description") or f'The field "{name}".'),
        _types(shapes),
        choices=tuple(word for choices_of_shape in choices_by_shape for word in choices_of_shape)
        if all(choices_by_shape)
        else (),
        default=schema.get("default"),
        examples=tuple(schema.get("examples", ())),
    )


def _shapes(schema: _Schema, definitions: Mapping[str, _Schema]) -> Iterator[_Schema]:
    """Yield the alternative schemas of a value, with references resolved."""
    if "$ref" in schema:
        yield from _shapes(definitions[str(schema["$ref"]).rpartition("/")[2]], definitions)
    elif alternatives := [alternative for key in ("anyOf", "oneOf", "allOf") for alternative in schema.get(key, ())]:
        for definition in alternatives:
            yield from _shapes(definition, definitions)
    else:
        yield schema


def _types(shapes: list[_Schema]) -> tuple[FieldType, ...]:
    """Return the types that a value may have; empty if it may have any type."""
    types: dict[FieldType, None] = {}
    for shape in shapes:
        name = _TYPES.get(str(shape.get("type")))
        if name is None:
            return ()
        types[name] = None
    return tuple(types)


def _choices(schema: _Schema) -> list[str]:
    return [str(choice) for choice in schema.get("enum", [schema["const"]] if "const" in schema else [])]
