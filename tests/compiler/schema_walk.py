"""Going through a schema as an editor does, and making playbooks out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from jsonschema import Draft7Validator

Schema: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str | int, ...]
Wrap: TypeAlias = Callable[[Any], Any]

STRANGER = "no_such_key"

BY_KIND = frozenset({"task", "workbook_flat", "call_of_kind", "named_task"})
"""Places that are only made whole by those of the single kinds."""

VALUES: dict[str, Any] = {"task": {"kind": "noop"}, "workbook_entry": {"tool": {"kind": "noop"}}}
"""What stands for a place that has no smallest form of its own."""


class Walk:
    """A schema, to ask what it says at a place of a document."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.validator: Any = Draft7Validator(schema)

    def target(self, schema: Schema) -> Schema:
        """What a reference leads to."""
        target: Schema = self.schema["definitions"][schema["$ref"].removeprefix("#/definitions/")]
        return target

    def parts(self, schema: Any, instance: Any) -> Iterator[Schema]:
        """The schema, and every schema that applies to the same instance because of it."""
        if schema is None or schema is True:
            return
        yield schema
        beside = [self.target(schema)] if "$ref" in schema else []
        beside += schema.get("allOf", [])
        beside += [option for option in schema.get("anyOf", []) if self.accepts(option, instance)]
        if "if" in schema:
            beside.append(schema.get("then" if self.accepts(schema["if"], instance) else "else", True))
        for part in beside:
            yield from self.parts(part, instance)

    def accepts(self, schema: Schema, instance: Any) -> bool:
        return bool(self.validator.evolve(schema=schema).is_valid(instance))

    def at(self, path: Path, document: Any) -> list[Schema]:
        """Every schema that applies at a place of a document."""
        schemas, instance = list(self.parts(self.schema, document)), document
        for token in path:
            reached_schemas = [child for schema in schemas for child in children(schema, token)]
            instance = instance[token]
            schemas = [part for child in reached_schemas for part in self.parts(child, instance)]
        return schemas

    def alternatives(self, schemas: list[Schema]) -> Iterator[Schema]:
        """These and what would apply in their place if the instance were of another shape."""
        for schema in schemas:
            yield schema
            if "else" in schema:
                yield from (self.target(schema[branch]) for branch in ("then", "else") if "$ref" in schema[branch])

    def words(self, schema: Any) -> Iterator[str | None]:
        """The words that a value may be, whatever else it may be."""
        if not isinstance(schema, bool | None):
            yield from schema.get("enum", ())
            for option in (*schema.get("anyOf", ()), *([self.target(schema)] if "$ref" in schema else ())):
                yield from self.words(option)


def children(schema: Schema, token: str | int) -> Iterator[Any]:
    if isinstance(token, int):
        yield schema.get("items", True)
    elif token in schema.get("properties", {}):
        yield schema["properties"][token]
    else:
        yield schema.get("additionalProperties", True)


class Samples:
    """Playbooks out of a schema: for each property of each place one that has it, and little else."""

    def __init__(self, schema: Schema) -> None:
        self.walk = Walk(schema)
        self.seen_refs: set[str] = set()

    def playbooks(self) -> Iterator[tuple[str, Any]]:
        """``place.property`` and the playbook; also for each place one without, and one with the key STRANGER."""
        yield from self._explore(self.walk.schema, "", lambda instance: instance)

    def _explore(self, schema: Any, place: str, wrap: Wrap) -> Iterator[tuple[str, Any]]:
        if schema is None or schema is True:
            return
        if "$ref" in schema:
            place = _place(schema)
            if place not in self.seen_refs:
                self.seen_refs.add(place)
                yield from self._explore(self.walk.target(schema), place, wrap)
        for option, settled_fields in self._beside(schema):
            yield from self._explore(option, place, _with(settled_fields, wrap))
        for option, around in _inside(schema):
            yield from self._explore(option, place, _around(around, wrap))
        if schema.get("type") != "object" or place in BY_KIND:
            return
        if "properties" in schema:
            yield place, wrap(self._smallest(schema, {}))
            yield f"{place}.{STRANGER}", wrap(self._smallest(schema, {STRANGER: "x"}))
        for key in schema.get("properties", ()):
            yield from self._property(schema, key, place, wrap)

    def _beside(self, schema: Schema) -> Iterator[tuple[Any, dict[str, Any]]]:
        """What else may be said of the same instance, with what the instance needs to have for it."""
        if "then" in schema:
            yield schema["then"], self._constraints(schema["if"], schema["then"])
        yield from ((option, {}) for option in (*schema.get("anyOf", ()), schema.get("else")))
        yield from ((one, {}) for one in schema.get("allOf", ()) if "if" in one)
        if "properties" not in schema:
            yield from ((one, self._smallest(schema, {})) for one in schema.get("allOf", ()) if "$ref" in one)

    def _property(self, schema: Schema, key: str, place: str, wrap: Wrap) -> Iterator[tuple[str, Any]]:
        property_ = self._merge(schema)["properties"][key]
        yield f"{place}.{key}", wrap(self._smallest(schema, {key: self.value(property_)}))
        yield from self._explore(property_, f"{place}.{key}", lambda inner: wrap(self._smallest(schema, {key: inner})))
        for name, inside in self._spread(schema, property_):
            fields = {name: self.value(inside)}
            yield f"{place}.{key}.{name}", wrap({key: fields, **self._smallest(schema, fields, without=name)})

    def _spread(self, schema: Schema, value: Any) -> Iterator[tuple[str, Any]]:
        """The properties of a place that may also stand inside of one of them."""
        for option in value.get("anyOf", ()) if value is not True else ():
            if option is not True and "propertyNames" in option:
                own_properties, all_of_it = (
                    self.walk.target(option["allOf"][0])["properties"],
                    self._merge(schema)["properties"],
                )
                yield from (
                    (name, all_of_it[name]) for name in option["propertyNames"]["enum"] if name not in own_properties
                )

    def _constraints(self, test: Schema, then: Schema) -> dict[str, Any]:
        """What a test asks for: ``{kind: http}``."""
        first = test
        while "anyOf" in first:
            first = first["anyOf"][0]
        known_properties = {**self._merge(self.walk.target(then))["properties"]} if "$ref" in then else {}
        known_properties |= {
            key: property_
            for key, property_ in first.get("properties", {}).items()
            if {"const", "enum"} & property_.keys()
        }
        return {key: self.value(known_properties[key]) for key in first.get("required", ()) if key in known_properties}

    def value(self, schema: Any) -> Any:
        """Something that the schema accepts."""
        if schema is True or "$ref" in schema:
            return self._resolve_reference(schema)
        if "const" in schema:
            return schema["const"]
        for keyword in ("enum", "examples"):
            if keyword in schema:
                return schema[keyword][0]
        for keyword in ("anyOf", "else"):
            if keyword in schema and "properties" not in schema:
                return self.value(schema[keyword][0] if keyword == "anyOf" else schema[keyword])
        if "allOf" in schema and "$ref" in schema["allOf"][0]:
            return {**VALUES.get(_place(schema["allOf"][0]), {}), **self._smallest(schema, {})}
        return self._value_of_type(schema)

    def _resolve_reference(self, schema: Any) -> Any:
        if schema is True:
            return "x"
        name = _place(schema)
        return VALUES[name] if name in VALUES else self.value(self.walk.target(schema))

    def _value_of_type(self, schema: Schema) -> Any:
        kinds: Any = schema.get("type", "string")
        kind: str = kinds if isinstance(kinds, str) else kinds[0]
        if kind == "object":
            return self._smallest(schema, {})
        if kind == "array":
            return [self.value(schema["items"])] if "items" in schema else []
        return {"boolean": True, "number": 1, "integer": 1}.get(kind, "x")

    def _smallest(self, schema: Schema, fields: dict[str, Any], without: str = "") -> dict[str, Any]:
        merged_schema = self._merge(schema)
        groups = [[key] for key in merged_schema["required"]] + merged_schema["groups"]
        missing = [group[0] for group in groups if not set(group) & set(fields)]
        made_fields = {key: self.value(merged_schema["properties"].get(key, {})) for key in missing}
        return {key: value for key, value in {**made_fields, **fields}.items() if key != without}

    def _merge(self, schema: Schema) -> dict[str, Any]:
        """The properties and needs of a place together with those of its lenders."""
        merged_schema: dict[str, Any] = {"properties": {}, "required": list(schema.get("required", [])), "groups": []}
        merged_schema["properties"].update(schema.get("properties", {}))
        for option in schema.get("allOf", ()):
            if "$ref" in option:
                lent = self._merge(self.walk.target(option))
                merged_schema["required"] += lent["required"]
                merged_schema["groups"] += lent["groups"]
                merged_schema["properties"].update(
                    {key: property_ for key, property_ in lent["properties"].items() if _is_told(property_)}
                )
            keys = [branch["required"][0] for branch in option.get("anyOf", ()) if branch.keys() == {"required"}]
            merged_schema["groups"] += [keys] if keys else []
        return merged_schema


def _place(schema: Schema) -> str:
    """The name of what a reference leads to."""
    return str(schema["$ref"]).rpartition("/")[2]


def _inside(schema: Schema) -> Iterator[tuple[Any, Wrap]]:
    """What is said of the items of a list, and of the values of any key."""
    if "items" in schema:
        yield schema["items"], lambda inner: [inner]
    if isinstance(schema.get("additionalProperties"), dict):
        yield schema["additionalProperties"], lambda inner: {"label": inner}


def _around(inner: Wrap, outer: Wrap) -> Wrap:
    return lambda instance: outer(inner(instance))


def _with(instance: dict[str, Any], wrap: Wrap) -> Wrap:
    return (lambda inner: wrap({**instance, **inner})) if instance else wrap


def _is_told(schema: Any) -> bool:
    """Whether a property says what its value may be."""
    return schema is not True and schema.get("anyOf") != [True]
